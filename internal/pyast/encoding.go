package pyast

import (
	"bytes"
	"strings"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
)

// decode sets Text and Encoding by the byte order mark and the cookie of PEP 263. It returns where the source begins.
func (f *File) decode(src []byte) (start int, errs []Error) {
	f.Encoding = "utf-8"
	if i := bytes.IndexByte(src, 0); i >= 0 {
		errs = append(errs, Error{Span{int32(i), int32(i + 1)}, "a null byte in the source"})
	}
	f.BOM = bytes.HasPrefix(src, []byte("\xef\xbb\xbf"))
	if f.BOM {
		start = 3
	}
	from, to := cookie(src[start:])
	from, to = from+start, to+start
	name := ""
	if to > from {
		name = normalEncoding(string(src[from:to]))
	}
	// CPython compares by the name: not even utf8 will do.
	given := strings.ReplaceAll(strings.ToLower(string(src[from:to])), "_", "-")
	if f.BOM && name != "" && given != "utf-8" && !strings.HasPrefix(given, "utf-8-") {
		errs = append(errs, Error{Span{int32(from), int32(to)}, "the encoding is " + name +
			", but the byte order mark says UTF-8"})
		name = ""
	}
	var high *[128]rune
	switch name {
	case "", "utf-8":
	case "iso-8859-1":
		high = &latin1
	case "ascii":
		f.Encoding = "ascii"
		if i := bytes.IndexFunc(src, func(r rune) bool { return r >= 128 }); i >= 0 {
			errs = append(errs, Error{Span{int32(i), int32(i)}, "the encoding is ASCII, but this is not"})
		}
	case "iso8859-15":
		high = &latin9
	case "cp1252":
		high = &cp1252
	default:
		f.Encoding = name
		switch e := other(name).(type) {
		case nil:
		case *charmap.Charmap:
			high = new([128]rune)
			for i := range high {
				high[i] = e.DecodeByte(byte(128 + i))
				// Python's ISO 8859 has the C1 controls, which these tables leave out.
				if high[i] == utf8.RuneError && i < 32 && strings.HasPrefix(name, "iso") {
					high[i] = rune(128 + i)
				}
			}
		default:
			text, err := e.NewDecoder().Bytes(src)
			if err != nil || bytes.Contains(text, []byte("\uFFFD")) {
				errs = append(errs, Error{Span{int32(from), int32(to)}, "the source holds bytes that " + name +
					" does not have"})
			}
			f.Text = string(text)
			return start, errs
		}
		if high != nil {
			break
		}
		errs = append(errs, Error{Span{int32(from), int32(to)}, "the encoding " + string(src[from:to]) +
			" is not known here"})
	}
	if high != nil {
		f.Encoding = name
		var b strings.Builder
		b.Grow(len(src) + len(src)/8)
		for i, c := range src {
			switch {
			case c < 128:
				b.WriteByte(c)
			case high[c-128] == utf8.RuneError:
				errs = append(errs, Error{Span{int32(i), int32(i)}, "a byte that " + name + " does not have"})
				b.WriteByte('?')
			default:
				b.WriteRune(high[c-128])
			}
		}
		f.Text = b.String()
		return start, errs
	}
	f.Text = unsafe.String(unsafe.SliceData(src), len(src)) // Parse's caller leaves it as it is
	if i := utf8Error(f.Text); i >= 0 {
		errs = append(errs, Error{Span{int32(i), int32(i)}, "the source is not UTF-8, and no line says what it is"})
		// The rest is read all the same, with each such byte replaced by one of the same length.
		fixed := []byte(f.Text)
		for j := 0; j < len(fixed); {
			r, n := utf8.DecodeRune(fixed[j:])
			if r == utf8.RuneError && n == 1 {
				fixed[j] = '?'
			}
			j += n
		}
		f.Text = string(fixed)
	}
	return start, errs
}

// cookie is the range of an encoding's name in the first two lines: ^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+), the second
// line only if the first holds nothing but a comment.
func cookie(src []byte) (from, to int) {
	at := 0
	for range 2 {
		end := bytes.IndexAny(src[at:], "\r\n")
		if end < 0 {
			end = len(src) - at
		}
		line := src[at : at+end]
		i := 0
		for i < len(line) && (line[i] == ' ' || line[i] == '\t' || line[i] == '\f') {
			i++
		}
		if i < len(line) && line[i] != '#' {
			return 0, 0
		}
		for i < len(line) {
			k := bytes.Index(line[i:], []byte("coding"))
			if k < 0 {
				break
			}
			i += k + len("coding")
			if i >= len(line) || line[i] != ':' && line[i] != '=' {
				continue
			}
			j := i + 1
			for j < len(line) && (line[j] == ' ' || line[j] == '\t') {
				j++
			}
			k = j
			for k < len(line) && line[k] < 128 && (class[line[k]]&cIdent != 0 || line[k] == '-' || line[k] == '.') {
				k++
			}
			if k > j {
				return at + j, at + k
			}
		}
		at += end
		if at < len(src) {
			at = eol(string(src[at:min(len(src), at+2)]), 0) + at
		}
	}
	return 0, 0
}

// normalEncoding gives the encodings that are read here one name each.
func normalEncoding(name string) string {
	n := strings.Trim(strings.ReplaceAll(strings.ToLower(name), "_", "-"), "-.")
	switch {
	case n == "utf-8" || strings.HasPrefix(n, "utf-8-") || n == "utf8" || n == "u8" || n == "utf" || n == "cp65001" ||
		n == "utf8-ucs2" || n == "utf8-ucs4":
		return "utf-8"
	case n == "latin-1" || n == "iso-8859-1" || n == "iso-latin-1" || strings.HasPrefix(n, "latin-1-") ||
		strings.HasPrefix(n, "iso-8859-1-") ||
		strings.HasPrefix(n, "iso-latin-1-") || n == "latin1" || n == "iso8859-1" || n == "8859" || n == "cp819" ||
		n == "l1" || n == "latin" || n == "iso8859":
		return "iso-8859-1"
	case n == "ascii" || n == "us-ascii" || n == "646" || n == "ansi-x3.4-1968":
		return "ascii"
	case n == "iso-8859-15" || n == "iso8859-15" || n == "latin-9" || n == "latin9" || n == "l9":
		return "iso8859-15"
	case n == "cp1252" || n == "windows-1252" || n == "1252":
		return "cp1252"
	}
	return n
}

// other is an encoding that is neither UTF-8 nor decoded here.
func other(name string) encoding.Encoding {
	switch strings.ReplaceAll(name, "-", "") {
	case "cp437", "ibm437", "437":
		return charmap.CodePage437
	case "cp850", "ibm850", "850":
		return charmap.CodePage850
	case "utf16", "utf16le", "utf16be", "utf7", "utf32":
		return nil // CPython has no source in them either
	}
	e, err := htmlindex.Get(name)
	if err != nil {
		e, err = htmlindex.Get(strings.ReplaceAll(name, "cp", "windows-"))
	}
	if err != nil {
		return nil
	}
	return e
}

var latin1 = func() (t [128]rune) {
	for i := range t {
		t[i] = rune(128 + i)
	}
	return
}()

// latin9 is ISO 8859-15: Latin-1 with eight other characters.
var latin9 = func() [128]rune {
	t := latin1
	for c, r := range map[int]rune{0xa4: '€', 0xa6: 'Š', 0xa8: 'š', 0xb4: 'Ž', 0xb8: 'ž', 0xbc: 'Œ', 0xbd: 'œ',
		0xbe: 'Ÿ'} {
		t[c-128] = r
	}
	return t
}()

// cp1252 is Windows-1252: Latin-1 with other characters from 0x80 to 0x9f, five of them undefined.
var cp1252 = func() [128]rune {
	t := latin1
	copy(t[:], []rune("€\uFFFD‚ƒ„…†‡ˆ‰Š‹Œ\uFFFDŽ\uFFFD\uFFFD‘’“”•–—˜™š›œ\uFFFDžŸ"))
	return t
}()

package weights

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/internal/fault"
)

// maxSafetensorsHeader is how many bytes a header may have: MAX_HEADER_SIZE in safetensors' tensor.rs.
const maxSafetensorsHeader = 100_000_000

// metadataKey is the name in a header under which no tensor stands.
const metadataKey = "__metadata__"

// otherBits are the bits of an element of the types that safetensors 0.8.0 has beyond ours (Dtype::bitsize in its
// tensor.rs): they are listed, and their bytes given as they lie.
var otherBits = map[DType]int64{"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8}

var typeName = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,31}$`)

var safetensorsFormat = format{"safetensors", isSafetensors, openSafetensors}

func isSafetensors(head []byte, name string) bool {
	return strings.HasSuffix(name, ".safetensors") ||
		len(head) > 8 && head[8] == '{' && binary.LittleEndian.Uint64(head) <= maxSafetensorsHeader
}

const fetchAgain = "the file is shorter than it says: fetch it again"

func openSafetensors(f *os.File, size int64) (*File, error) {
	var length [8]byte
	if _, err := f.ReadAt(length[:], 0); err == io.EOF {
		return nil, fault.Hint(fmt.Errorf("it has %d bytes, and a safetensors file 8 at least", size), fetchAgain)
	} else if err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(length[:])
	switch {
	case n > maxSafetensorsHeader:
		return nil, fmt.Errorf("its header would have %d bytes, and may have %d: it is no safetensors file", n,
			maxSafetensorsHeader)
	case int64(n) > size-8:
		return nil, fault.Hint(fmt.Errorf("its header has %d bytes, and the file %d after it began", n, size-8), fetchAgain)
	}
	header := make([]byte, n)
	if _, err := f.ReadAt(header, 8); err != nil {
		return nil, err
	}
	spans, meta, err := parseSafetensors(header, size-8-int64(n))
	if err != nil {
		return nil, err
	}
	file := &File{Format: "safetensors", Meta: meta, Closers: []io.Closer{f}}
	for _, t := range spans {
		at := 8 + int64(n) + t.begin
		t.Where, t.Open = fmt.Sprintf("byte %d", at), section(f, at, t.Bytes)
		file.Tensors = append(file.Tensors, t.Tensor)
	}
	return file, nil
}

// section is an Open that gives bytes of a file as they lie.
func section(f io.ReaderAt, at, n int64) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(f, at, n)), nil }
}

// A span is a tensor and where its bytes lie among the data of its file.
type span struct {
	Tensor
	begin, end int64
}

// parseSafetensors reads a header whose data have so many bytes. As the library does it refuses data that are not
// covered by tensors, each byte once.
func parseSafetensors(header []byte, data int64) ([]span, map[string]string, error) {
	if !utf8.Valid(header) {
		return nil, nil, errors.New("its header is not in UTF-8")
	}
	var list []span
	meta := map[string]string{}
	dec := json.NewDecoder(bytes.NewReader(header))
	dec.UseNumber()
	err := object(dec, func(name string) error {
		if name == metadataKey {
			return object(dec, func(key string) error {
				word, err := dec.Token()
				if s, ok := word.(string); ok {
					meta[key] = s
					return nil
				}
				return cmp.Or(err, fmt.Errorf("%q is %v, and no text", key, word))
			})
		}
		t, err := safetensorsEntry(dec)
		t.Name = name
		list = append(list, t)
		return err
	})
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = errors.New("something follows it")
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("its header: %w", err)
	}
	return list, meta, covered(list, data)
}

// covered says what is wrong where the spans do not cover so many bytes, each once.
func covered(list []span, data int64) error {
	byPlace := slices.Clone(list)
	slices.SortStableFunc(byPlace, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at, before := int64(0), ""
	for _, t := range byPlace {
		switch {
		case t.end > data:
			return fault.Hint(fmt.Errorf("tensor %q ends at byte %d of the data, and they have %d", t.Name, t.end, data),
				fetchAgain)
		case t.begin < at:
			return fmt.Errorf("tensor %q begins at byte %d of the data, where %q lies, up to byte %d", t.Name, t.begin,
				before, at)
		case t.begin > at:
			return fmt.Errorf("no tensor has bytes %d to %d of the data, before %q", at, t.begin, t.Name)
		}
		at, before = t.end, t.Name
	}
	if at < data {
		return fmt.Errorf("no tensor has the last %d bytes of the file", data-at)
	}
	return nil
}

// safetensorsEntry reads what stands under a tensor's name.
func safetensorsEntry(dec *json.Decoder) (t span, err error) {
	var offsets []int64
	err = object(dec, func(key string) (err error) {
		switch key {
		case "dtype":
			var word json.Token
			if word, err = dec.Token(); err == nil {
				s, _ := word.(string)
				if t.DType = DType(s); !typeName.MatchString(s) {
					err = fmt.Errorf("its type is %.50q", word)
				}
			}
		case "shape":
			t.Shape, err = integers(dec)
		case "data_offsets":
			offsets, err = integers(dec)
		default:
			var other json.RawMessage
			err = dec.Decode(&other)
		}
		return err
	})
	if err != nil {
		return t, err
	}
	n, ok := t.Elements()
	switch {
	case t.DType == "" || t.Shape == nil || len(offsets) != 2:
		return t, errors.New("it has not each of dtype, shape and two data_offsets")
	case offsets[0] < 0 || offsets[1] < offsets[0]:
		return t, fmt.Errorf("its data_offsets are %v", offsets)
	case !ok:
		return t, fmt.Errorf("its shape is %v", t.Shape)
	}
	t.begin, t.end = offsets[0], offsets[1]
	t.Bytes = t.end - t.begin
	bits := 8 * t.DType.Size()
	if bits == 0 {
		bits = otherBits[t.DType]
	}
	switch {
	case bits == 0:
		t.Note = "a type that is not known here: that it has as many bytes as its shape asks for was not looked at"
	case n > (1<<63-1)/bits:
		return t, fmt.Errorf("its shape is %v", t.Shape)
	case n*bits%8 != 0:
		return t, fmt.Errorf("%v of %s are %d bits, which fill no bytes", t.Shape, t.DType, n*bits)
	case n*bits/8 != t.Bytes:
		return t, fmt.Errorf("it has %d bytes, and %v of %s %d", t.Bytes, t.Shape, t.DType, n*bits/8)
	}
	return t, nil
}

// object reads an object of JSON and shows each of its keys to value, which reads what stands under it. A key that
// comes twice is an error.
func object(dec *json.Decoder, value func(key string) error) error {
	if open, err := dec.Token(); err != nil {
		return unexpected(err)
	} else if open != json.Delim('{') {
		return fmt.Errorf("%.50v stands where an object should", open)
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return unexpected(err)
		}
		key := token.(string) // what the decoder gives in this place
		if seen[key] {
			return fmt.Errorf("%q stands there twice", key)
		}
		seen[key] = true
		if err := value(key); err != nil {
			return fmt.Errorf("%q: %w", key, unexpected(err))
		}
	}
	_, err := dec.Token()
	return unexpected(err)
}

// unexpected is an end of the text in its middle.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// integers reads a list of them.
func integers(dec *json.Decoder) ([]int64, error) {
	var words []json.RawMessage
	if err := dec.Decode(&words); err != nil {
		return nil, err
	}
	if words == nil {
		return nil, errors.New("null stands where a list should")
	}
	list := make([]int64, len(words))
	for i, w := range words {
		n, err := strconv.ParseInt(string(w), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%.50s is no number that it can have", w)
		}
		list[i] = n
	}
	return list, nil
}

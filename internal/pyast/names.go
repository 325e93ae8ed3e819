package pyast

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"sort"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/text/unicode/norm"
)

// nfkc is the form in which Python compares names.
func nfkc(s string) string { return norm.NFKC.String(s) }

// names.txt.gz is written by tools/pyast/names.py: "NAME=HEX" in order of names, of Unicode 16 as CPython 3.14 has it.
//
//go:embed names.txt.gz
var packedNames []byte

var runeNames = sync.OnceValue(func() string {
	z, err := gzip.NewReader(bytes.NewReader(packedNames))
	if err != nil {
		panic(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	return string(text)
})

// numbered are the names that end in the code point.
var numbered = []struct {
	prefix string
	ranges []rune // pairs
}{
	{"CJK UNIFIED IDEOGRAPH-", []rune{0x3400, 0x4dbf, 0x4e00, 0x9fff, 0x20000, 0x2a6df, 0x2a700, 0x2b739, 0x2b740,
		0x2b81d, 0x2b820, 0x2cea1, 0x2ceb0, 0x2ebe0,
		0x2ebf0, 0x2ee5d, 0x30000, 0x3134a, 0x31350, 0x323af}},
	{"CJK COMPATIBILITY IDEOGRAPH-", []rune{0xf900, 0xfa6d, 0xfa70, 0xfad9, 0x2f800, 0x2fa1d}},
	{"EGYPTIAN HIEROGLYPH-", []rune{0x13460, 0x143fa}},
	{"KHITAN SMALL SCRIPT CHARACTER-", []rune{0x18b00, 0x18cd5, 0x18cff, 0x18cff}},
	{"NUSHU CHARACTER-", []rune{0x1b170, 0x1b2fb}},
}

// The letters of Hangul syllables (The Unicode Standard, 3.12).
var (
	jamoL = strings.Split("G GG N D DD R M B BB S SS  J JJ C K T P H", " ")
	jamoV = strings.Split("A AE YA YAE EO E YEO YE O WA WAE OE YO U WEO WE WI YU EU YI I", " ")
	jamoT = strings.Split(" G GG GS N NJ NH D L LG LM LB LS LT LP LH M B BS S SS NG J C K T P H", " ")
)

// runeNamed is the character that \N{name} stands for.
func runeNamed(name string) (rune, bool) {
	if len(name) > 256 {
		return 0, false
	}
	name = strings.ToUpper(name)
	if rest, ok := strings.CutPrefix(name, "HANGUL SYLLABLE "); ok {
		for l, first := range jamoL {
			for v, second := range jamoV {
				for t, third := range jamoT {
					if len(rest) == len(first)+len(second)+len(third) && rest == first+second+third {
						return rune(0xAC00 + (l*len(jamoV)+v)*len(jamoT) + t), true
					}
				}
			}
		}
		return 0, false
	}
	for _, n := range numbered {
		rest, ok := strings.CutPrefix(name, n.prefix)
		if !ok {
			continue
		}
		if c, err := strconv.ParseUint(rest, 16, 21); err == nil && (len(rest) == 4 || len(rest) == 5 &&
			rest[0] != '0') {
			for i := 0; i < len(n.ranges); i += 2 {
				if rune(c) >= n.ranges[i] && rune(c) <= n.ranges[i+1] {
					return rune(c), true
				}
			}
		}
		break
	}
	text := runeNames()
	// lineAt is the line that holds a byte.
	lineAt := func(i int) string {
		from := strings.LastIndexByte(text[:i], '\n') + 1
		return text[from : from+strings.IndexByte(text[from:], '\n')]
	}
	i := sort.Search(len(text), func(i int) bool {
		n, _, _ := strings.Cut(lineAt(i), "=")
		return n >= name
	})
	if i == len(text) {
		return 0, false
	}
	n, hex, _ := strings.Cut(lineAt(i), "=")
	if n != name {
		return 0, false
	}
	c, err := strconv.ParseUint(hex, 16, 21)
	return rune(c), err == nil
}

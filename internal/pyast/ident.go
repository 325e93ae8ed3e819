package pyast

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// identifier says whether a word that holds characters beyond ASCII is a name (PEP 3131: XID_Start XID_Continue*), and
// if not, where the first character is that spoils it.
func identifier(s string) (at int, ok bool) {
	for i, r := range s {
		if r < 128 {
			continue // the tokenizer has looked
		}
		if !xidStart(r) && (i == 0 || !xidContinue(r)) {
			return i, false
		}
	}
	return 0, true
}

func xidStart(r rune) bool {
	if r == utf8.RuneError {
		return false
	}
	if !unicode.IsLetter(r) && !unicode.In(r, unicode.Nl, unicode.Other_ID_Start, unicode16) {
		return false
	}
	return !unicode.In(r, notXIDStart, unicode.Pattern_Syntax, unicode.Pattern_White_Space)
}

func xidContinue(r rune) bool {
	return xidStart(r) || !unicode.In(r, unicode.Pattern_Syntax) &&
		unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Other_ID_Continue, xidOnlyContinue)
}

// notXIDStart are letters whose compatibility form is no identifier (Unicode Standard Annex 31, NFKC modifications).
var notXIDStart = table(0x37A, 0x37A, 0xE33, 0xE33, 0xEB3, 0xEB3, 0x309B, 0x309C, 0xFC5E, 0xFC63, 0xFDFA, 0xFDFB,
	0xFE70, 0xFE70, 0xFE72, 0xFE72,
	0xFE74, 0xFE74, 0xFE76, 0xFE76, 0xFE78, 0xFE78, 0xFE7A, 0xFE7A, 0xFE7C, 0xFE7C, 0xFE7E, 0xFE7E, 0xFF9E, 0xFF9F)

// xidOnlyContinue are those of them that may still stand behind the first character, and what Unicode 15.1 and 16
// added. CPython 3.14 has Unicode 16; Go's tables are those of Unicode 15.
var xidOnlyContinue = table(0xE33, 0xE33, 0xEB3, 0xEB3, 0xFF9E, 0xFF9F,
	0x897, 0x897, 0x200C, 0x200D, 0x30FB, 0x30FB, 0xFF65, 0xFF65, 0x10D40, 0x10D49, 0x10D69, 0x10D6D, 0x10EFC, 0x10EFC,
	0x113B8, 0x113C0, 0x113C2, 0x113C2,
	0x113C5, 0x113C5, 0x113C7, 0x113CA, 0x113CC, 0x113D0, 0x113D2, 0x113D2, 0x113E1, 0x113E2, 0x116D0, 0x116E3, 0x11BF0,
	0x11BF9, 0x11F5A, 0x11F5A,
	0x1611E, 0x16139, 0x16D70, 0x16D79, 0x1CCF0, 0x1CCF9, 0x1E5EE, 0x1E5EF, 0x1E5F1, 0x1E5FA)

// unicode16 are the letters that Unicode 15.1 and 16 added.
var unicode16 = table(0x1C89, 0x1C8A, 0xA7CB, 0xA7CD, 0xA7DA, 0xA7DC, 0x105C0, 0x105F3, 0x10D4A, 0x10D65, 0x10D6F,
	0x10D85, 0x10EC2, 0x10EC4, 0x11380, 0x11389,
	0x1138B, 0x1138B, 0x1138E, 0x1138E, 0x11390, 0x113B5, 0x113B7, 0x113B7, 0x113D1, 0x113D1, 0x113D3, 0x113D3, 0x11BC0,
	0x11BE0, 0x13460, 0x143FA,
	0x16100, 0x1611D, 0x16D40, 0x16D6C, 0x18CFF, 0x18CFF, 0x1E5D0, 0x1E5ED, 0x1E5F0, 0x1E5F0, 0x2EBF0, 0x2EE5D)

func table(pairs ...uint32) *unicode.RangeTable {
	t := &unicode.RangeTable{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] <= 0xFFFF {
			t.R16 = append(t.R16, unicode.Range16{Lo: uint16(pairs[i]), Hi: uint16(pairs[i+1]), Stride: 1})
		} else {
			t.R32 = append(t.R32, unicode.Range32{Lo: pairs[i], Hi: pairs[i+1], Stride: 1})
		}
	}
	slices.SortFunc(t.R16, func(a, b unicode.Range16) int { return int(a.Lo) - int(b.Lo) })
	slices.SortFunc(t.R32, func(a, b unicode.Range32) int { return int(a.Lo) - int(b.Lo) })
	return t
}

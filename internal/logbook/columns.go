package logbook

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// Most of a document is numbers: steps, samples, operators. As text they take two to three times what they tell. So a
// document is taken apart before it is compressed: its text, with a mark where a number stood, and the numbers of one
// meaning together, as whole numbers of the least decimal place among them. What repeats from run to run, the text
// above all, then is the same bytes, and compressed against a document like it (base.go) a document takes little more
// than what is new in it.
//
// The form, in two parts; all lengths as uvarint:
//
//	text     length, bytes: oneNumber where a number stood, manyNumbers with count and what stands between for a list
//	places   how many; for each context, in the order of its first number, the column of its numbers
//	columns  how many; for each: how it is written, how many numbers, and what that asks for
//	bits     the second part: of each column behind one another, in whole bytes
//
// The context of a number is the name of its field and the last text that a field "name" had, so that the values of one
// figure meet. Whatever would not come back byte for byte is not taken apart.
const (
	oneNumber   = 1 // neither can stand in JSON
	manyNumbers = 2

	asText     = 0 // the numbers' texts, each with a line end
	asDecimals = 1 // whole numbers, of so many decimal places
	asFloat32  = 2 // the bits of a float32, in the order of their values
	asFloat64  = 3

	fewest     = 8   // numbers that are worth a column
	mostPlaces = 330 // decimal places of a float64
)

var errColumns = errors.New("the document is damaged")

// fields follows the fields of a document, to tell the context of a number.
type fields struct {
	key, name []byte // of the field; the last text of a field "name"
	isName    bool   // the field is called so
	seen      map[string]int
	last      int
	changed   bool // key or name, since last was looked up
	word      []byte
}

// text reads the literal that begins with the quote at from, and gives where it ends.
func (f *fields) text(doc []byte, from int) int {
	end := from + 1
	for {
		n := bytes.IndexByte(doc[end:], '"')
		if n < 0 {
			return len(doc)
		}
		end += n + 1
		slashes := end - 1
		for slashes > from+1 && doc[slashes-1] == '\\' {
			slashes--
		}
		if (end-1-slashes)%2 == 0 {
			break
		}
	}
	word := doc[from+1 : end-1]
	if end < len(doc) && doc[end] == ':' {
		f.key, f.isName, f.changed = word, string(word) == "name", true
	} else if f.isName {
		f.name, f.changed = word, true
	}
	return end
}

// context gives the number of the context of a number that stands here.
func (f *fields) context() int {
	if f.changed {
		f.word = append(append(append(f.word[:0], f.key...), 0), f.name...)
		n, ok := f.seen[string(f.word)]
		if !ok {
			n = len(f.seen)
			f.seen[string(f.word)] = n
		}
		f.last, f.changed = n, false
	}
	return f.last
}

// span is where a number stands in the document.
type span struct{ from, to int }

func isNumber(b byte) bool { return b >= '0' && b <= '9' || b == '-' }

func numberEnd(doc []byte, i int) int {
	for i < len(doc) && (isNumber(doc[i]) || doc[i] == '.' || doc[i] == 'e' || doc[i] == 'E' || doc[i] == '+') {
		i++
	}
	return i
}

// takeApart gives the two parts of a document; ok is false where it has a byte that no JSON has.
func takeApart(doc []byte) (head, tail []byte, ok bool) {
	if bytes.IndexByte(doc, oneNumber) >= 0 || bytes.IndexByte(doc, manyNumbers) >= 0 {
		return nil, nil, false
	}
	text := make([]byte, 0, len(doc)/2)
	f := &fields{seen: map[string]int{}, changed: true}
	var numbers [][]span // by context
	var keys []string    // of contexts
	put := func(from int) int {
		to := numberEnd(doc, from)
		at := f.context()
		if at == len(numbers) {
			numbers, keys = append(numbers, nil), append(keys, string(f.key))
		}
		numbers[at] = append(numbers[at], span{from, to})
		return to
	}
	for i := 0; i < len(doc); {
		b := doc[i]
		switch {
		case b == '"':
			end := f.text(doc, i)
			text = append(text, doc[i:end]...)
			i = end
		case isNumber(b):
			i = put(i)
			count, between := uint64(1), []byte(nil)
			for {
				next := i
				for next < len(doc) && next-i < 255 && (doc[next] == ',' || doc[next] == ' ' || doc[next] == '\n') {
					next++
				}
				if next == i || next == len(doc) || !isNumber(doc[next]) || count > 1 && !bytes.Equal(between,
					doc[i:next]) {
					break
				}
				between = doc[i:next]
				i = put(next)
				count++
			}
			if count == 1 {
				text = append(text, oneNumber)
			} else {
				text = append(binary.AppendUvarint(append(text, manyNumbers), count), byte(len(between)))
				text = append(text, between...)
			}
		default: // up to what is next of interest
			end := i + 1
			for end < len(doc) && doc[end] != '"' && !isNumber(doc[end]) {
				end++
			}
			text = append(text, doc[i:end]...)
			i = end
		}
	}
	head = binary.AppendUvarint(make([]byte, 0, len(text)+len(doc)/4), uint64(len(text)))
	head = append(head, text...)
	places, columns := share(numbers, keys)
	head = binary.AppendUvarint(head, uint64(len(places)))
	for _, at := range places {
		head = binary.AppendUvarint(head, uint64(at))
	}
	head = binary.AppendUvarint(head, uint64(len(columns)))
	for _, column := range columns {
		head, tail = writeColumn(doc, column, head, tail)
	}
	return head, tail, true
}

// share gives each context a column: its own where it has numbers enough, else that of its field, else the first.
func share(numbers [][]span, keys []string) (places []int, columns [][]span) {
	few, ofKey := map[string]int{}, map[string]int{}
	for at, list := range numbers {
		if len(list) < fewest {
			few[keys[at]] += len(list)
		}
	}
	places, columns = make([]int, len(numbers)), [][]span{nil}
	mixed := map[int]bool{0: true}
	for at, list := range numbers {
		if len(list) >= fewest || few[keys[at]] >= fewest {
			n, there := ofKey[keys[at]]
			if there = there && len(list) < fewest; !there {
				n = len(columns)
				columns = append(columns, nil)
			}
			if len(list) < fewest {
				ofKey[keys[at]], mixed[n] = n, true
			}
			places[at] = n
		}
		columns[places[at]] = append(columns[places[at]], list...)
	}
	for n := range mixed { // as they come in the document
		slices.SortFunc(columns[n], func(a, b span) int { return a.from - b.from })
	}
	return places, columns
}

func writeColumn(doc []byte, column []span, head, tail []byte) (_, _ []byte) {
	kind, decimals, values := numbersOf(doc, column)
	head = append(head, byte(kind))
	head = binary.AppendUvarint(head, uint64(len(column)))
	if kind == asText {
		for _, s := range column {
			head = append(append(head, doc[s.from:s.to]...), '\n')
		}
		return head, tail
	}
	// From the first on, by what all differences are multiples of (pages, of memory), then as differences of as many
	// orders as makes them small.
	first, unit := values[0], uint64(0)
	for _, v := range values {
		unit = gcd(uint64(max(v, first))-uint64(min(v, first)), unit)
	}
	unit = max(unit, 1)
	for i, v := range values {
		if v < first {
			values[i] = -int64((uint64(first) - uint64(v)) / unit)
		} else {
			values[i] = int64((uint64(v) - uint64(first)) / unit)
		}
	}
	order, least := 0, cost(values)
	by := [][]int64{values}
	for n := 1; n <= 2; n++ {
		by = append(by, differences(by[n-1]))
		if c := cost(by[n]); c < least {
			order, least = n, c
		}
	}
	head = append(binary.AppendUvarint(head, uint64(decimals)), byte(order))
	head = binary.AppendUvarint(binary.AppendVarint(head, first), unit)
	var held uint64 // bits that are no whole byte yet
	n := 0
	for _, v := range by[order] {
		z := zigzag(v)
		class := bits.Len64(z)
		head = append(head, byte(class))
		for left := class - 1; left > 0; { // without the first bit, which is 1
			take := min(left, 32)
			left -= take
			held |= (z >> left & (1<<take - 1)) << n
			for n += take; n >= 8; n -= 8 {
				tail = append(tail, byte(held))
				held >>= 8
			}
		}
	}
	if n > 0 {
		tail = append(tail, byte(held))
	}
	return head, tail
}

func zigzag(v int64) uint64   { return uint64(v<<1) ^ uint64(v>>63) }
func unzigzag(z uint64) int64 { return int64(z>>1) ^ -int64(z&1) }

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func differences(values []int64) []int64 {
	out := make([]int64, len(values))
	var before int64
	for i, v := range values {
		out[i], before = v-before, v
	}
	return out
}

// cost is about how many bits the values take.
func cost(values []int64) (n int) {
	for _, v := range values {
		n += bits.Len64(zigzag(v)) + 2
	}
	return n
}

// numbersOf reads a column as whole numbers from which the texts can be made again.
func numbersOf(doc []byte, column []span) (kind, decimals int, values []int64) {
	if len(column) == 0 {
		return asText, 0, nil
	}
	values = make([]int64, len(column))
	places := make([]int, len(column))
	digits := 0
	fits := true
	for i, s := range column {
		v, n, ok := parseDecimal(doc[s.from:s.to])
		if !ok {
			fits = false
			break
		}
		values[i], places[i] = v, n
		decimals = max(decimals, n)
		digits += s.to - s.from
	}
	if fits && digits > 14*len(column) { // more than the digits of a float32: is it that?
		if floats := floatsOf(doc, column, 32); floats != nil {
			return asFloat32, 0, floats
		}
	}
	for i := 0; fits && i < len(values); i++ {
		for ; places[i] < decimals && fits; places[i]++ {
			fits = values[i] < 1<<58 && values[i] > -1<<58
			values[i] *= 10
		}
	}
	if fits {
		return asDecimals, decimals, values
	}
	for _, width := range []int{32, 64} {
		if floats := floatsOf(doc, column, width); floats != nil {
			return asFloat32 + width/32 - 1, 0, floats
		}
	}
	return asText, 0, nil
}

// floatsOf gives the bits of floats from which the texts can be made again, as whole numbers in the order of the
// floats; nil where they cannot.
func floatsOf(doc []byte, column []span, width int) []int64 {
	values := make([]int64, len(column))
	var again []byte
	for i, s := range column {
		v, err := strconv.ParseFloat(string(doc[s.from:s.to]), 64)
		if err != nil || width == 32 && float64(float32(v)) != v {
			return nil
		}
		if again = appendFloat(again[:0], v); !bytes.Equal(again, doc[s.from:s.to]) {
			return nil
		}
		if width == 32 {
			values[i] = int64(int32(math.Float32bits(float32(v))))
			if values[i] < 0 {
				values[i] ^= math.MaxInt32
			}
		} else if values[i] = int64(math.Float64bits(v)); values[i] < 0 {
			values[i] ^= math.MaxInt64
		}
	}
	return values
}

// parseDecimal reads a number as v·10^-places; ok is false where appendDecimal would write it otherwise.
func parseDecimal(text []byte) (v int64, places int, ok bool) {
	i, negative := 0, text[0] == '-'
	if negative {
		i++
	}
	point := -1
	for ; i < len(text); i++ {
		c := text[i]
		if c >= '0' && c <= '9' {
			if v >= 1<<59 {
				return 0, 0, false
			}
			v = 10*v + int64(c-'0')
		} else if c == '.' && point < 0 {
			point = i
		} else {
			break
		}
	}
	if point >= 0 {
		places = i - point - 1
	}
	if i < len(text) {
		power, err := strconv.Atoi(string(text[min(i+1, len(text)):]))
		if text[i] != 'e' || err != nil || power > 0 || power < -300 {
			return 0, 0, false
		}
		places -= power
	}
	if negative {
		v = -v
	}
	var room [48]byte
	return v, places, places <= mostPlaces && bytes.Equal(appendDecimal(room[:0], v, places), text)
}

// appendDecimal writes v·10^-places as encoding/json writes a float of that value.
func appendDecimal(to []byte, v int64, places int) []byte {
	for places > 0 && v%10 == 0 && v != 0 {
		v /= 10
		places--
	}
	if v == 0 {
		return append(to, '0')
	}
	m := uint64(v)
	if v < 0 {
		to = append(to, '-')
		m = -m
	}
	var room [20]byte
	digits := strconv.AppendUint(room[:0], m, 10)
	switch whole := len(digits) - places; { // digits before the point
	case places == 0:
		return append(to, digits...)
	case whole > 0:
		return append(append(append(to, digits[:whole]...), '.'), digits[whole:]...)
	case whole > -6:
		to = append(to, "0.000000"[:2-whole]...)
		return append(to, digits...)
	default:
		to = append(to, digits[0])
		if len(digits) > 1 {
			to = append(append(to, '.'), digits[1:]...)
		}
		return strconv.AppendInt(append(to, 'e'), int64(whole-1), 10)
	}
}

// appendFloat writes a float as encoding/json does.
func appendFloat(to []byte, v float64) []byte {
	if size := math.Abs(v); size != 0 && (size < 1e-6 || size >= 1e21) {
		to = strconv.AppendFloat(to, v, 'e', -1, 64)
		if n := len(to); n >= 4 && to[n-4] == 'e' && to[n-3] == '-' && to[n-2] == '0' { // e-09 is e-9
			to = append(to[:n-2], to[n-1])
		}
		return to
	}
	return strconv.AppendFloat(to, v, 'f', -1, 64)
}

// column is read number by number.
type column struct {
	kind, decimals, order int
	first                 int64
	unit                  uint64
	classes, bits         []byte // asText: the texts
	held                  uint64
	n                     int // bits held
	at                    [3]int64
}

func (c *column) next(to []byte) ([]byte, bool) {
	if c.kind == asText {
		end := bytes.IndexByte(c.classes, '\n')
		if end < 0 {
			return to, false
		}
		to = append(to, c.classes[:end]...)
		c.classes = c.classes[end+1:]
		return to, true
	}
	if len(c.classes) == 0 {
		return to, false
	}
	class := int(c.classes[0])
	c.classes = c.classes[1:]
	var z uint64
	if class > 0 {
		z = 1
	}
	for left := class - 1; left > 0; {
		take := min(left, 32)
		left -= take
		for c.n < take {
			if len(c.bits) == 0 {
				return to, false
			}
			c.held |= uint64(c.bits[0]) << c.n
			c.bits = c.bits[1:]
			c.n += 8
		}
		z = z<<take | c.held&(1<<take-1)
		c.held >>= take
		c.n -= take
	}
	v := unzigzag(z)
	for n := c.order; n > 0; n-- {
		c.at[n-1] += v
		v = c.at[n-1]
	}
	v = c.first + v*int64(c.unit)
	switch c.kind {
	case asDecimals:
		return appendDecimal(to, v, c.decimals), true
	case asFloat32:
		if v < 0 {
			v ^= math.MaxInt32
		}
		return appendFloat(to, float64(math.Float32frombits(uint32(v)))), true
	default:
		if v < 0 {
			v ^= math.MaxInt64
		}
		return appendFloat(to, math.Float64frombits(uint64(v))), true
	}
}

// putTogether is the inverse of takeApart: parts are the two behind one another. They may be a stranger's: whatever
// they say, no more memory is taken than they and size bytes have.
func putTogether(parts []byte, size int) ([]byte, error) {
	rest := parts
	failed := false
	length := func() int {
		v, n := binary.Uvarint(rest)
		if n <= 0 || v > uint64(len(parts)) {
			failed = true
			return 0
		}
		rest = rest[n:]
		return int(v)
	}
	take := func(n int) []byte {
		if n > len(rest) {
			failed = true
			return nil
		}
		out := rest[:n]
		rest = rest[n:]
		return out
	}
	text := take(length())
	places := make([]int, min(length(), len(rest)))
	for i := range places {
		places[i] = length()
	}
	columns := make([]column, min(length(), len(rest)))
	for i := range columns {
		if failed || len(rest) == 0 {
			return nil, errColumns
		}
		c := &columns[i]
		c.kind = int(take(1)[0])
		count := length()
		if c.kind == asText {
			end := 0
			for range count {
				n := bytes.IndexByte(rest[end:], '\n')
				if n < 0 {
					return nil, errColumns
				}
				end += n + 1
			}
			c.classes = take(end)
			continue
		}
		if c.decimals = length(); c.decimals > mostPlaces || c.kind > asFloat64 || len(rest) == 0 {
			return nil, errColumns
		}
		c.order = int(take(1)[0])
		v, n := binary.Varint(rest)
		take(max(n, 0))
		u, m := binary.Uvarint(rest)
		take(max(m, 0))
		c.first, c.unit = v, u
		if c.classes = take(count); n <= 0 || m <= 0 || c.order > 2 || failed {
			return nil, errColumns
		}
	}
	for i := range columns {
		c := &columns[i]
		if c.kind == asText {
			continue
		}
		n := 0
		for _, class := range c.classes {
			if class > 64 {
				return nil, errColumns
			}
			n += max(int(class)-1, 0)
		}
		c.bits = take((n + 7) / 8)
	}
	if failed || len(rest) > 0 {
		return nil, errColumns
	}
	doc := make([]byte, 0, min(size, 64*len(parts))+64) // a number more than fits is seen behind it
	f := &fields{seen: map[string]int{}, changed: true}
	for i := 0; i < len(text); {
		switch b := text[i]; b {
		case '"':
			end := f.text(text, i)
			doc = append(doc, text[i:end]...)
			i = end
		case oneNumber, manyNumbers:
			count, between := uint64(1), []byte(nil)
			i++
			if b == manyNumbers {
				var n int
				count, n = binary.Uvarint(text[i:])
				if i += n; n <= 0 || i >= len(text) || i+1+int(text[i]) > len(text) {
					return nil, errColumns
				}
				between = text[i+1 : i+1+int(text[i])]
				i += 1 + len(between)
			}
			at := f.context()
			if at >= len(places) || places[at] >= len(columns) {
				return nil, errColumns
			}
			c := &columns[places[at]]
			for n := range count {
				if n > 0 {
					doc = append(doc, between...)
				}
				var ok bool
				if doc, ok = c.next(doc); !ok || len(doc) > size {
					return nil, errColumns
				}
			}
		default:
			end := i + 1
			for end < len(text) && text[end] != '"' && text[end] != oneNumber && text[end] != manyNumbers {
				end++
			}
			doc = append(doc, text[i:end]...)
			i = end
		}
		if len(doc) > size {
			return nil, errColumns
		}
	}
	if len(doc) != size {
		return nil, errColumns
	}
	return doc, nil
}

package symptom

// finder says which of many texts occur in a line, in one pass over its bytes: Aho and Corasick's automaton, without
// regard to the case of ASCII letters. Bytes that occur in no text share a column, so that the table stays small.
type finder struct {
	class [256]uint8
	width int
	next  []int32 // state × class → state
	out   [][]int32
}

func newFinder(texts []string) *finder {
	f := &finder{width: 1}
	for _, t := range texts {
		for i := range len(t) {
			if b := t[i]; f.class[b] == 0 && f.width < 255 {
				f.class[b] = uint8(f.width)
				f.width++
			}
		}
	}
	for b := 'a'; b <= 'z'; b++ {
		f.class[b-'a'+'A'] = f.class[b]
	}
	node := func() int32 {
		for range f.width {
			f.next = append(f.next, 0)
		}
		f.out = append(f.out, nil)
		return int32(len(f.out) - 1)
	}
	node()
	for i, t := range texts {
		s := int32(0)
		for j := range len(t) {
			at := int(s)*f.width + int(f.class[t[j]])
			if f.next[at] == 0 {
				n := node()
				f.next[at] = n
			}
			s = f.next[at]
		}
		f.out[s] = append(f.out[s], int32(i))
	}
	// Breadth first: where a state has no way on, the way of its longest suffix is taken.
	fail := make([]int32, len(f.out))
	var queue []int32
	for c := range f.width {
		if s := f.next[c]; s != 0 {
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		f.out[s] = append(f.out[s], f.out[fail[s]]...)
		for c := range f.width {
			at := int(s)*f.width + c
			if n := f.next[at]; n != 0 {
				fail[n] = f.next[int(fail[s])*f.width+c]
				queue = append(queue, n)
			} else {
				f.next[at] = f.next[int(fail[s])*f.width+c]
			}
		}
	}
	return f
}

// in appends the numbers of the texts in a line to found; one may come more than once.
func (f *finder) in(line []byte, found []int32) []int32 {
	s := 0
	for _, b := range line {
		s = int(f.next[s*f.width+int(f.class[b])])
		if len(f.out[s]) > 0 {
			found = append(found, f.out[s]...)
		}
	}
	return found
}

// any reports whether one of the texts is in a line.
func (f *finder) any(line []byte) bool {
	s := 0
	for _, b := range line {
		if s = int(f.next[s*f.width+int(f.class[b])]); len(f.out[s]) > 0 {
			return true
		}
	}
	return false
}

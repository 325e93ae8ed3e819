package secret

import (
	"bytes"
	"encoding/json"
)

// JSON takes secrets out of every text of a JSON document or of a line of one, names of fields included. A list of
// texts is read as a command line. Numbers, and texts in which nothing is found, keep their bytes; where nothing is
// found at all the document itself is given back.
func (set *Set) JSON(doc []byte) []byte {
	return rewrite(doc, leastCarried, set.Text, func(argv []string) []string { return set.redactWords(argv, nil) })
}

// rewrite hands texts of so many bytes or more to text, and lists of texts that may be command lines to words, where
// that is not nil.
func rewrite(doc []byte, least int, text func(string) string, words func([]string) []string) []byte {
	var out []byte
	last := 0
	replace := func(from, to int, with string) {
		data, err := json.Marshal(with)
		if err != nil {
			return // a string always can be
		}
		out = append(append(out, doc[last:from]...), data...)
		last = to
	}
	for i := 0; i < len(doc); {
		at := bytes.IndexByte(doc[i:], '"')
		if at < 0 {
			break
		}
		at += i
		if words != nil && before(doc, at) {
			if texts, ends, ok := list(doc, at); ok {
				for n, word := range words(texts) {
					if word != texts[n] {
						replace(ends[n].from, ends[n].to, word)
					}
				}
				i = ends[len(ends)-1].to
				continue
			}
		}
		end, escaped := literalEnd(doc, at)
		if end-at-2 >= least {
			was := ""
			if !escaped || json.Unmarshal(doc[at:end], &was) != nil {
				was = string(doc[at+1 : max(at+1, end-1)])
			}
			if is := text(was); is != was {
				replace(at, end, is)
			}
		}
		i = end
	}
	if out == nil {
		return doc
	}
	return append(out, doc[last:]...)
}

// literalEnd gives where the text that begins with the quote at from ends, behind its quote, and whether it holds
// escapes.
func literalEnd(doc []byte, from int) (end int, escaped bool) {
	for i := from + 1; i < len(doc); i++ {
		switch doc[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			return i + 1, escaped
		}
	}
	return len(doc), escaped
}

// before says whether the text at from is the first of a list.
func before(doc []byte, from int) bool {
	for from--; from >= 0; from-- {
		if c := doc[from]; !isSpace(c) {
			return c == '['
		}
	}
	return false
}

// list reads the rest of a list of texts, from its first on; false where it holds anything else, or nothing that a
// command line would: most lists, as the kinds of steps, need no more than this look.
func list(doc []byte, from int) (texts []string, places []span, ok bool) {
	command := false
	for i := from; ; {
		if i >= len(doc) || doc[i] != '"' {
			return nil, nil, false
		}
		end, _ := literalEnd(doc, i)
		command = command || i+1 < len(doc) && doc[i+1] == '-' || bytes.ContainsAny(doc[i:end], "=@") ||
			string(doc[i:end]) == `"login"` // wandb login KEY
		places = append(places, span{i, end})
		for i = end; i < len(doc) && isSpace(doc[i]); i++ {
		}
		if i < len(doc) && doc[i] == ']' {
			break
		}
		if i >= len(doc) || doc[i] != ',' {
			return nil, nil, false
		}
		for i++; i < len(doc) && isSpace(doc[i]); i++ {
		}
	}
	if !command {
		return nil, nil, false
	}
	texts = make([]string, len(places))
	for i, p := range places {
		if json.Unmarshal(doc[p.from:p.to], &texts[i]) != nil {
			return nil, nil, false
		}
	}
	return texts, places, true
}

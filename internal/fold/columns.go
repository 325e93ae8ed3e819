package fold

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
)

// integers is a column of an event: most of what a long run sends. encoding/json checks the text and hands it over;
// reading it here costs a fifth of what reflection on each number does.
type integers []int64

var errNoColumn = errors.New("a column of whole numbers is expected")

// UnmarshalJSON reads a list of whole numbers as encoding/json would: null leaves it as it is, a fraction is an error.
func (c *integers) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	if len(text) < 2 || text[0] != '[' {
		return errNoColumn
	}
	list := make([]int64, 0, bytes.Count(text, []byte{','})+1)
	for i := 1; ; {
		for text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r' {
			i++
		}
		switch text[i] {
		case ']':
			*c = list
			return nil
		case ',':
			i++
			continue
		}
		from := i
		var v int64
		for i < len(text) && (text[i] >= '0' && text[i] <= '9') {
			v = v*10 + int64(text[i]-'0')
			i++
		}
		if end := text[i]; i == from || i-from > 18 || end != ',' && end != ']' && end != ' ' {
			// a sign, a fraction, null, a long number
			for text[i] != ',' && text[i] != ']' && text[i] != ' ' && text[i] != '\t' && text[i] != '\n' &&
				text[i] != '\r' {
				i++
			}
			var err error
			if word := string(text[from:i]); word == "null" {
				v = 0
			} else if v, err = strconv.ParseInt(word, 10, 64); err != nil {
				return errNoColumn
			}
		}
		list = append(list, v)
	}
}

// losses is a column of numbers, in which "nan", "inf" and "-inf" stand for what JSON cannot write. What is no number
// is NaN.
type losses []float64

// UnmarshalJSON reads a list of anything.
func (c *losses) UnmarshalJSON(text []byte) error {
	slow := func() error {
		var any []any
		if err := json.Unmarshal(text, &any); err != nil {
			return err
		}
		*c = make(losses, len(any))
		for i, v := range any {
			(*c)[i] = lossOf(v)
		}
		return nil
	}
	if len(text) < 2 || text[0] != '[' || bytes.ContainsAny(text[1:], "[{\\") {
		return slow()
	}
	list := make(losses, 0, bytes.Count(text, []byte{','})+1)
	if body := bytes.TrimSpace(text[1 : len(text)-1]); len(body) > 0 {
		for word := range bytes.SplitSeq(body, []byte{','}) {
			word = bytes.TrimSpace(word)
			v, err := strconv.ParseFloat(string(word), 64)
			switch {
			case err == nil:
			case errors.Is(err, strconv.ErrRange):
				return slow()
			case word[0] != '"': // null, true, false
				v = math.NaN()
			case len(word) > 1 && word[len(word)-1] == '"':
				v = lossOf(string(word[1 : len(word)-1]))
			default: // a comma within a text
				return slow()
			}
			list = append(list, v)
		}
	}
	*c = list
	return nil
}

func lossOf(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case string:
		switch v {
		case "inf":
			return math.Inf(1)
		case "-inf":
			return math.Inf(-1)
		}
	}
	return math.NaN()
}

// KindOf is the "ev" of an event that is valid JSON. Where it stands first, as the agent writes it, and nothing like it
// follows, the rest is not read.
func KindOf(event []byte) (string, bool) {
	const head = `{"ev":"`
	if len(event) > len(head) && string(event[:len(head)]) == head {
		for i := len(head); i < len(event); i++ {
			if c := event[i]; c == '"' {
				return string(event[len(head):i]), true
			} else if c == '\\' || c < ' ' || c >= 0x80 {
				break
			}
		}
	}
	var kind struct {
		Ev string `json:"ev"`
	}
	err := json.Unmarshal(event, &kind)
	return kind.Ev, err == nil
}

package remote

import (
	"errors"
	"strings"
)

// Words splits a command as a shell would, without expanding anything: quotes and backslashes are read.
func Words(s string) ([]string, error) {
	var words []string
	var word strings.Builder
	begun := false
	var quote rune
	escaped := false
	for _, r := range s {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' && r != '$' && r != '`' {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quote is not closed")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

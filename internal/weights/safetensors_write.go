package weights

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// safetensorsOrder is the order in which the library writes types, the last first, so that each tensor is aligned to
// its elements: enum Dtype of safetensors 0.8.0's tensor.rs.
var safetensorsOrder = []DType{Bool, U8, I8, F8E5M2, F8E4M3, I16, U16, F16, BF16, I32, U32, F32, C64, F64, I64, U64}

// planSafetensors is the plan in the order in which the library writes it, behind a header that is byte for byte the
// library's.
func planSafetensors(meta map[string]string, plan []Tensor) ([]Tensor, frames, error) {
	list, err := planned(plan, "safetensors holds", func(d DType) bool { return slices.Contains(safetensorsOrder, d) })
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(list, func(a, b Tensor) int {
		return cmp.Or(slices.Index(safetensorsOrder, b.DType)-slices.Index(safetensorsOrder, a.DType),
			strings.Compare(a.Name, b.Name))
	})
	header := make([]byte, 8, 1024)
	header = append(header, '{')
	if len(meta) > 0 {
		header = append(header, `"__metadata__":{`...)
		for i, key := range slices.Sorted(maps.Keys(meta)) {
			if !utf8.ValidString(key) || !utf8.ValidString(meta[key]) {
				return nil, nil, fmt.Errorf("metadata %q is not in UTF-8", key)
			}
			if i > 0 {
				header = append(header, ',')
			}
			header = append(appendJSON(header, key), ':')
			header = appendJSON(header, meta[key])
		}
		header = append(header, '}')
	}
	at := int64(0)
	for _, t := range list {
		switch {
		case t.Name == metadataKey:
			return nil, nil, fmt.Errorf("tensor %q: safetensors keeps that name for metadata", t.Name)
		case !utf8.ValidString(t.Name):
			return nil, nil, fmt.Errorf("tensor %q: its name is not in UTF-8", t.Name)
		case t.Bytes > 1<<63-1-1<<30-at:
			return nil, nil, errors.New("the tensors are larger than a file can be")
		}
		if len(header) > 9 {
			header = append(header, ',')
		}
		header = appendJSON(header, t.Name)
		header = fmt.Appendf(header, `:{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}`, t.DType,
			joined(t.Shape, ","), at, at+t.Bytes)
		at += t.Bytes
	}
	header = append(header, '}')
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	if len(header)-8 > maxSafetensorsHeader {
		return nil, nil, fmt.Errorf("the header would have %d bytes, and readers take %d", len(header)-8,
			maxSafetensorsHeader)
	}
	binary.LittleEndian.PutUint64(header, uint64(len(header)-8))
	return list, &rows{header: header}, nil
}

// appendJSON appends a string as serde_json writes it: only quotes, backslashes and control characters are escaped.
func appendJSON(to []byte, s string) []byte {
	const short = "\b\t\n\f\r\"\\"
	to = append(to, '"')
	for i := range len(s) {
		if at := strings.IndexByte(short, s[i]); at >= 0 {
			to = append(to, '\\', `btnfr"\`[at])
		} else if s[i] < ' ' {
			to = fmt.Appendf(to, `\u%04x`, s[i])
		} else {
			to = append(to, s[i])
		}
	}
	return append(to, '"')
}

func joined(shape []int64, by string) string {
	words := make([]string, len(shape))
	for i, d := range shape {
		words[i] = fmt.Sprint(d)
	}
	return strings.Join(words, by)
}

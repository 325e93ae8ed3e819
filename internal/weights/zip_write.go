package weights

import (
	"archive/zip"
	"encoding/json"
	"io"
	"maps"
	"strings"
	"time"
)

// firstDay is the first that a zip file can say, and what NumPy's say: the same bytes whenever they are written.
var firstDay = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// mostComment is how many bytes such a comment has at most. PyTorch 2.15 looks for the end of the directory 4096 bytes at
// a time from the end of the file, and does not find it across their border: with 4074 bytes it reads the file, with 4096
// it does not.
const mostComment = 2048

// metaComment is what a file says of itself as the comment of a zip file, an object in JSON: readers of NumPy's and
// PyTorch's files pass over it. Of more than mostComment bytes it is what stands under "assay." and "format", and of
// more than that nothing.
func metaComment(meta map[string]string) string {
	for _, keep := range []func(key string) bool{
		func(string) bool { return true },
		func(key string) bool { return key == "format" || strings.HasPrefix(key, "assay.") },
	} {
		some := map[string]string{}
		for key, value := range meta {
			if keep(key) {
				some[key] = value
			}
		}
		text, _ := json.Marshal(some) // of texts
		if len(some) > 0 && len(text) <= mostComment {
			return string(text)
		}
	}
	return ""
}

// readComment gives what metaComment wrote; of another comment nothing.
func readComment(comment string) map[string]string {
	meta := map[string]string{}
	said := map[string]string{}
	if len(comment) <= mostComment && json.Unmarshal([]byte(comment), &said) == nil {
		maps.Copy(meta, said)
	}
	return meta
}

// zipped are tensors that are entries of a zip file, not packed.
type zipped struct {
	list    []Tensor
	comment string
	to      *partFile
	zip     *zip.Writer
	// entry begins tensor i, and gives what takes its elements.
	entry func(e *zipped, i int) (io.Writer, error)
	// first and last write entries before and behind the tensors; nil: there are none.
	first, last func(e *zipped) error
}

func (e *zipped) begin(to *partFile) error {
	e.to, e.zip = to, zip.NewWriter(to)
	if e.first != nil {
		return e.first(e)
	}
	return nil
}

func (e *zipped) next(i int) (io.Writer, error) {
	w, err := e.entry(e, i)
	if err == nil {
		err = e.zip.Flush() // elements and what stands round them come to the file apart
	}
	return w, err
}

func (e *zipped) flush() error { return e.zip.Flush() }

func (e *zipped) end() error {
	if e.last != nil {
		if err := e.last(e); err != nil {
			return err
		}
	}
	if err := e.zip.SetComment(e.comment); err != nil {
		return err
	}
	return e.zip.Close()
}

package weights

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/fault"
)

// indexName is how a file's name ends that says in which others tensors lie, as model.safetensors.index.json:
// transformers writes it beside shards of any kind.
const indexName = ".index.json"

const (
	maxIndex  = 256 << 20 // bytes; that of a model of a million tensors has some 100 MB
	maxShards = 1 << 12   // each keeps a descriptor; the largest models that are published have below 200
)

// openIndex opens each shard: names alone stand in the index, and types and shapes in the shards' headers.
func openIndex(f *os.File, size int64) (_ *File, err error) {
	if size > maxIndex {
		return nil, fmt.Errorf("it has %d bytes, and an index %d at most", size, maxIndex)
	}
	file := &File{Meta: map[string]string{}, Closers: []io.Closer{f}}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	places, total, err := parseIndex(io.NewSectionReader(f, 0, size), file.Meta)
	if err != nil {
		return nil, err
	}
	files := map[string]bool{}
	for _, p := range places {
		if files[p.shard] = true; len(files) > maxShards {
			return nil, fmt.Errorf("it names more than %d files", maxShards)
		}
	}
	folder := filepath.Dir(f.Name())
	has := map[string]map[string]*Tensor{}
	var shards []string
	for _, p := range places {
		if has[p.shard] != nil {
			continue
		}
		// links are followed: a cache of models is made of them
		if !filepath.IsLocal(p.shard) || strings.HasSuffix(strings.ToLower(p.shard), indexName) {
			return nil, fmt.Errorf("tensor %q would lie in %q, which is no file of weights of this folder", p.name, p.shard)
		}
		shard, err := openRegular(filepath.Join(folder, p.shard))
		if errors.Is(err, os.ErrNotExist) {
			return nil, fault.Hint(fmt.Errorf("%s, which it names, is not there", p.shard),
				"fetch all of the model's files")
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", p.shard, err)
		}
		file.Closers = append(file.Closers, shard)
		file.Format = cmp.Or(file.Format, shard.Format)
		for key, value := range shard.Meta { // of shards that differ the first speaks
			if _, said := file.Meta[key]; !said {
				file.Meta[key] = value
			}
		}
		shards, has[p.shard] = append(shards, p.shard), map[string]*Tensor{}
		for i := range shard.Tensors {
			has[p.shard][shard.Tensors[i].Name] = &shard.Tensors[i]
		}
		for _, left := range shard.Left {
			file.leave(left.Name, left.Kind)
		}
		for _, note := range shard.Notes {
			file.Notes = append(file.Notes, p.shard+": "+note)
		}
	}
	sum := int64(0)
	for _, p := range places {
		t := has[p.shard][p.name]
		if t == nil {
			return nil, fault.Hint(fmt.Errorf("%s has no tensor %q, which the index says lies there", p.shard, p.name),
				"index and files are not of one model: fetch both again")
		}
		delete(has[p.shard], p.name)
		t.Shard = p.shard
		sum += t.Bytes
		file.Tensors = append(file.Tensors, *t)
	}
	for _, shard := range shards {
		var others []string
		for name := range has[shard] {
			others = append(others, name)
		}
		if len(others) > 0 {
			slices.Sort(others)
			file.Notes = append(file.Notes, fmt.Sprintf("left out %d tensors of %s, which the index does not name, as %q",
				len(others), shard, others[0]))
		}
	}
	if total != "" && total != fmt.Sprint(sum) {
		file.Notes = append(file.Notes, fmt.Sprintf("the index gives %s bytes in all, and the tensors have %d", total, sum))
	}
	return file, nil
}

type place struct{ name, shard string }

// parseIndex reads an index: where its tensors lie, in its order; the total that it gives, or ""; what else it says of
// itself goes into meta, as far as it is no object.
func parseIndex(r io.Reader, meta map[string]string) (places []place, total string, err error) {
	dec := json.NewDecoder(r)
	dec.UseNumber()
	mapped := false
	err = object(dec, func(key string) error {
		switch key {
		case "metadata":
			return object(dec, func(key string) error {
				var value any
				err := dec.Decode(&value)
				switch v := value.(type) {
				case json.Number:
					if key == "total_size" {
						total = v.String()
						return err
					}
					meta[key] = v.String()
				case string:
					meta[key] = v
				case bool:
					meta[key] = fmt.Sprint(v)
				}
				return err
			})
		case "weight_map":
			mapped = true
			return object(dec, func(name string) error {
				word, err := dec.Token()
				shard, ok := word.(string)
				if err == nil && !ok {
					err = fmt.Errorf("%v is no name of a file", word)
				}
				places = append(places, place{name, shard})
				return err
			})
		}
		var other json.RawMessage
		return dec.Decode(&other)
	})
	if err == nil && !mapped {
		err = errors.New("it has no weight_map")
	}
	if err != nil {
		return nil, "", fmt.Errorf("the index: %w", err)
	}
	return places, total, nil
}

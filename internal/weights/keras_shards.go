package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/fault"
)

// kerasIndexName is how a file's name ends that Keras writes for weights in several files: save_weights with
// max_shard_size, from Keras 3.10 on (keras.src.saving.saving_lib, ShardedH5IOStore). It says of each group of
// variables, "/layers/dense/vars", in which files they lie; one variable is never parted.
const kerasIndexName = ".weights.json"

// openKerasIndex opens each .weights.h5 that an index of Keras's names, as one file of weights.
func openKerasIndex(f *os.File, size int64) (_ *File, err error) {
	if size > maxIndex {
		return nil, fmt.Errorf("it has %d bytes, and an index %d at most", size, maxIndex)
	}
	file := &File{Meta: map[string]string{}, Closers: []io.Closer{f}}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	groups, err := parseKerasIndex(io.NewSectionReader(f, 0, size))
	if err != nil {
		return nil, err
	}
	want := map[string]map[string]bool{} // by file: the groups that should lie there
	var shards []string
	for _, g := range groups {
		for _, shard := range g.shards {
			if want[shard] == nil {
				if len(shards) == maxShards {
					return nil, fmt.Errorf("it names more than %d files", maxShards)
				}
				want[shard], shards = map[string]bool{}, append(shards, shard)
			}
			want[shard][g.name] = true
		}
	}
	lies := map[string]string{}
	for _, name := range shards {
		if !filepath.IsLocal(name) || !strings.HasSuffix(name, ".h5") {
			return nil, fmt.Errorf("weights would lie in %q, which is no .weights.h5 of this folder", name)
		}
		shard, err := openRegular(filepath.Join(filepath.Dir(f.Name()), name))
		if errors.Is(err, os.ErrNotExist) {
			return nil, fault.Hint(fmt.Errorf("%s, which it names, is not there", name), "fetch all of the model's files")
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		file.Closers = append(file.Closers, shard)
		file.Format = shard.Format
		for key, value := range shard.Meta { // of shards that differ the first speaks
			if _, said := file.Meta[key]; !said {
				file.Meta[key] = value
			}
		}
		for _, note := range shard.Notes {
			file.Notes = append(file.Notes, name+": "+note)
		}
		var others []string
		left := want[name]
		found := map[string]bool{}
		for _, t := range shard.Tensors {
			group := path.Dir(t.Name)
			if !left[group] {
				others = append(others, t.Name)
				continue
			}
			if other, twice := lies[t.Name]; twice {
				return nil, fmt.Errorf("%s lies in %s and in %s", t.Name, other, name)
			}
			lies[t.Name], found[group], t.Shard = name, true, name
			file.Tensors = append(file.Tensors, t)
		}
		for _, g := range groups {
			if left[g.name] && !found[g.name] {
				return nil, fault.Hint(fmt.Errorf("%s has none of %s, which the index says lies there", name, g.name),
					"index and files are not of one model: fetch both again")
			}
		}
		if len(others) > 0 {
			slices.Sort(others)
			file.Notes = append(file.Notes, fmt.Sprintf("left out %d tensors of %s, which the index does not name, as %q",
				len(others), name, others[0]))
		}
	}
	return file, wholeGroups(file)
}

// wholeGroups says where a group lacks a variable: they are numbered from 0.
func wholeGroups(file *File) error {
	has, count := map[string]bool{}, map[string]int{}
	var groups []string
	for _, t := range file.Tensors {
		group := path.Dir(t.Name)
		if count[group] == 0 {
			groups = append(groups, group)
		}
		has[t.Name] = true
		count[group]++
	}
	for _, group := range groups {
		for i := range count[group] {
			if name := fmt.Sprintf("%s/%d", group, i); !has[name] {
				return fault.Hint(fmt.Errorf("none of its files has %s", name), "fetch all of the model's files again")
			}
		}
	}
	return nil
}

// A kerasGroup is a group of variables and the files in which they lie.
type kerasGroup struct {
	name   string // without the slash before it
	shards []string
}

func parseKerasIndex(r io.Reader) (groups []kerasGroup, err error) {
	dec := json.NewDecoder(r)
	mapped := false
	err = object(dec, func(key string) error {
		if key != "weight_map" {
			var other json.RawMessage
			return dec.Decode(&other)
		}
		mapped = true
		return object(dec, func(group string) error {
			var said json.RawMessage
			if err := dec.Decode(&said); err != nil {
				return err
			}
			g := kerasGroup{name: strings.TrimPrefix(group, "/")}
			var one string
			if json.Unmarshal(said, &one) == nil {
				g.shards = []string{one}
			} else if json.Unmarshal(said, &g.shards) != nil || len(g.shards) == 0 {
				return fmt.Errorf("%.50s is no name of a file, and no list of them", said)
			}
			groups = append(groups, g)
			return nil
		})
	})
	if err == nil && !mapped {
		err = errors.New("it has no weight_map")
	}
	if err != nil {
		return nil, fmt.Errorf("the index: %w", err)
	}
	return groups, nil
}

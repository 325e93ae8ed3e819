package hdf5

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"assay/internal/fault"
)

// readAll opens a file and reads all that lies in it, each dataset up to a bound. It gives the first error.
func readAll(data []byte) error {
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	attributes := func(o *Object) {
		list, err := o.Attributes()
		keep(err)
		for _, a := range list {
			if a.Type.Name == "string" || a.Type.Name == "strings" {
				_, err := a.Strings()
				keep(err)
			} else if a.Type.Number() {
				_, err := a.Bytes()
				keep(err)
			}
		}
	}
	for _, g := range f.Groups {
		attributes(g)
	}
	for _, d := range f.Datasets {
		attributes(&d.Object)
		r, err := d.Open()
		if err != nil {
			keep(err)
			continue
		}
		n, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
		keep(err)
		if err == nil && n != min(d.Bytes, 1<<20) {
			keep(io.ErrUnexpectedEOF)
		}
	}
	return first
}

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// resum puts the right checksum behind a header that a test has changed.
func resum(b []byte, at int) {
	end := at + 10 + int(binary.LittleEndian.Uint32(b[at+6:]))
	binary.LittleEndian.PutUint32(b[end:], lookup3(b[at:end]))
}

// TestHostile: each of these is one clear error, with a place and with what to do next.
func TestHostile(t *testing.T) {
	plain := func(t *testing.T) []byte {
		return fileOf(t, []made{madeOf("g/d", "float32", []int64{3}, make([]byte, 12))},
			map[string]map[string]string{"": {"name": "x"}})
	}
	// change alters bytes behind the n-th place where a pattern stands.
	change := func(t *testing.T, b []byte, pattern string, skip int, to ...byte) []byte {
		t.Helper()
		at := bytes.Index(b, []byte(pattern))
		if at < 0 {
			t.Fatalf("%q is not in the file", pattern)
		}
		copy(b[at+skip:], to)
		return b
	}
	for _, c := range []struct {
		name, want string
		make       func(*testing.T) []byte
	}{
		{"nothing", "no signature", func(*testing.T) []byte { return nil }},
		{"another kind", "no signature", func(*testing.T) []byte { return bytes.Repeat([]byte("x"), 5000) }},
		{"signature alone", "cut off", func(*testing.T) []byte { return []byte(Signature) }},
		{"cut in the structure", "superblock says", func(t *testing.T) []byte { return plain(t)[:100] }},
		{"cut in the elements", "superblock says", func(t *testing.T) []byte {
			b := plain(t)
			return b[:len(b)-4]
		}},
		{"superblock of tomorrow", "superblock version 9", func(t *testing.T) []byte {
			b := plain(t)
			b[8] = 9
			return b
		}},
		{"superblock altered", "checksum", func(t *testing.T) []byte {
			b := plain(t)
			b[36]++
			return b
		}},
		{"header altered", "checksum", func(t *testing.T) []byte {
			return change(t, plain(t), "OHDR", 12, 0xff)
		}},
		{"root outside", "beyond the file", func(t *testing.T) []byte {
			b := plain(t)
			binary.LittleEndian.PutUint64(b[36:], 1<<40)
			binary.LittleEndian.PutUint32(b[44:], lookup3(b[:44]))
			return b
		}},
		{"header of four gigabytes", "larger than the file", func(t *testing.T) []byte {
			return change(t, plain(t), "OHDR", 6, 0xff, 0xff, 0xff, 0xff)
		}},
		{"elements outside", "beyond the file", func(t *testing.T) []byte {
			b := plain(t)
			at := bytes.LastIndex(b, []byte("OHDR"))
			layout := at + bytes.Index(b[at:], []byte{kindLayout, 18, 0, 0, 3, 1})
			binary.LittleEndian.PutUint64(b[layout+6:], uint64(len(b)-8))
			resum(b, at)
			return b
		}},
		{"shape larger than its bytes", "where 4000 are wanted", func(t *testing.T) []byte {
			b := plain(t)
			at := bytes.LastIndex(b, []byte("OHDR"))
			space := at + bytes.Index(b[at:], []byte{kindDataspace, 12, 0, 0, 2, 1})
			binary.LittleEndian.PutUint64(b[space+8:], 1000)
			resum(b, at)
			return b
		}},
		{"shape beyond numbers", "a dataset of shape", func(t *testing.T) []byte {
			b := plain(t)
			at := bytes.LastIndex(b, []byte("OHDR"))
			space := at + bytes.Index(b[at:], []byte{kindDataspace, 12, 0, 0, 2, 1})
			binary.LittleEndian.PutUint64(b[space+8:], 1<<61)
			resum(b, at)
			return b
		}},
		{"heap altered", "no object 1", func(t *testing.T) []byte {
			return change(t, plain(t), "GCOL", 16, 7)
		}},
		{"heap larger than the file", "beyond the file", func(t *testing.T) []byte {
			return change(t, plain(t), "GCOL", 8, 0, 0, 0, 0, 1)
		}},
		{"heap of nothing", "GCOL", func(t *testing.T) []byte {
			return change(t, plain(t), "GCOL", 0, 'X')
		}},
		{"chunk that does not unpack", "a chunk, filter", func(t *testing.T) []byte {
			b := recorded(t, "chunks_earliest.h5")
			for at := 0; at+2 < len(b); at++ { // zlib's first bytes at level 4, h5py's
				if b[at] == 0x78 && b[at+1] == 0x5e {
					b[at+2] ^= 0xff
				}
			}
			return b
		}},
		{"tree within itself", "met twice", func(t *testing.T) []byte {
			b := recorded(t, "wide_earliest.h5")
			at := bytes.Index(b, []byte("TREE"))
			b[at+5] = 1 // a level more: its child is taken for a node
			binary.LittleEndian.PutUint64(b[at+32:], uint64(at))
			return b
		}},
		{"tree of another kind", "a tree of kind", func(t *testing.T) []byte {
			return change(t, recorded(t, "wide_earliest.h5"), "TREE", 4, 1)
		}},
		{"symbol node of many", "beyond the file", func(t *testing.T) []byte {
			return change(t, recorded(t, "wide_earliest.h5"), "SNOD", 6, 0xff, 0xff)
		}},
		{"names outside the heap", "beyond", func(t *testing.T) []byte {
			return change(t, recorded(t, "wide_earliest.h5"), "SNOD", 8, 0xff, 0xff)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := readAll(c.make(t))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, and %q is wanted", err, c.want)
			}
			if c.want != "no signature" && fault.HintOf(err) == "" {
				t.Errorf("%v: nothing says what to do next", err)
			}
		})
	}
}

// TestEveryCut: a file that ends anywhere is an error, and never a panic.
func TestEveryCut(t *testing.T) {
	for _, name := range []string{"links_latest.h5", "links_earliest.h5"} {
		whole := recorded(t, name)
		for n := range whole {
			if readAll(whole[:n]) == nil {
				t.Errorf("%s cut at %d of %d is read as if it were whole", name, n, len(whole))
			}
		}
	}
}

// TestLoopOfContinuations: a header that continues in itself ends, and takes no memory for it.
func TestLoopOfContinuations(t *testing.T) {
	b := recorded(t, "texts_earliest.h5")
	changed := false
	for at := 0; at+24 < len(b); at += 8 { // a continuation of version 1: kind, 16 bytes long, address, length
		if binary.LittleEndian.Uint64(b[at:]) == kindContinuation|16<<16 {
			next := binary.LittleEndian.Uint64(b[at+8:])
			if next == 0 || next > uint64(len(b)-24) {
				continue
			}
			binary.LittleEndian.PutUint64(b[next:], kindContinuation|16<<16)
			binary.LittleEndian.PutUint64(b[next+8:], next)
			binary.LittleEndian.PutUint64(b[next+16:], 24)
			changed = true
		}
	}
	if !changed {
		t.Fatal("the file has no header that continues")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	readAll(b)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 256<<20 {
		t.Errorf("%d bytes of memory were taken for %d", taken, len(b))
	}
}

// TestManyTextsInOneHeap: what is written has all its texts in one heap, which is read once.
func TestManyTextsInOneHeap(t *testing.T) {
	texts := map[string]map[string]string{}
	for i := range 5000 {
		texts[fmt.Sprintf("g%d", i)] = map[string]string{"a": strings.Repeat("x", 100)}
	}
	b := fileOf(t, nil, texts)
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range f.Groups[1:] {
		if text, _, err := g.Text("a"); len(text) != 100 || err != nil {
			t.Fatalf("%s: %q, %v", g.Path, text, err)
		}
	}
}

// TestBudget: all attributes of a file have one budget, so that many groups cannot have one heap read for each.
func TestBudget(t *testing.T) {
	f := openFile(t, "testdata/texts_latest.h5")
	read := 0
	for i := 0; i < 1<<20; i++ {
		for _, g := range f.Groups {
			if _, err := g.Attributes(); err != nil {
				if !strings.Contains(err.Error(), "larger than what it describes") || fault.HintOf(err) == "" {
					t.Error(err)
				}
				return
			}
			if read++; read > leastBudget/1000 {
				t.Fatalf("%d times", read)
			}
		}
	}
}

// TestBomb: a dataset that says to be far larger than its file could be is listed, and not read.
func TestBomb(t *testing.T) {
	b := fileOf(t, []made{madeOf("d", "float32", []int64{0}, nil)}, nil)
	at := bytes.LastIndex(b, []byte("OHDR"))
	space := at + bytes.Index(b[at:], []byte{kindDataspace, 12, 0, 0, 2, 1})
	binary.LittleEndian.PutUint64(b[space+8:], 1<<50)
	resum(b, at)
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil || len(f.Datasets) != 1 {
		t.Fatal(err)
	}
	if _, err := f.Datasets[0].Open(); err == nil || !strings.Contains(err.Error(), "in a file of") {
		t.Errorf("%v", err)
	}
}

// TestDeflateBomb: a chunk is unpacked to what its dataset has, and no further.
func TestDeflateBomb(t *testing.T) {
	if _, err := inflate(deflated(t, 1<<24), 1<<10); err == nil || !strings.Contains(err.Error(), "more than 1024") {
		t.Errorf("%v", err)
	}
}

// TestChecksumOfChunk: a chunk with fletcher32 whose bytes were altered is an error.
func TestChecksumOfChunk(t *testing.T) {
	b := recorded(t, "chunks_latest.h5")
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Datasets {
		if d.Path != "fletcher" {
			continue
		}
		chunks, err := d.chunks()
		if err != nil {
			t.Fatal(err)
		}
		b[chunks.rest[1].address] ^= 1
		r, err := d.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r); err == nil || !strings.Contains(err.Error(), "fletcher32: the checksum") {
			t.Errorf("%v", err)
		}
		return
	}
	t.Error("the file has no dataset fletcher")
}

// TestRefusesByName: what goes beyond is listed, with what it is and where, and what is left out of the list is told.
func TestRefusesByName(t *testing.T) {
	for _, file := range []string{"types_earliest.h5", "types_latest.h5", "beyond.h5"} {
		for _, d := range openFile(t, filepath.Join("testdata", file)).Datasets {
			want := map[string]string{"pair": "compound datatype {a, b} at 0x",
				"strings": "variable-length datatype at 0x", "string": "string datatype at 0x",
				"virtual": "virtual layout at 0x", "external": "data in other files at 0x",
				"scaled": "scaleoffset filter at 0x"}[d.Path]
			if !strings.HasPrefix(d.Wrong, want) || want == "" && d.Wrong != "" {
				t.Errorf("%s: %q, and %q is wanted", d.Path, d.Wrong, want)
			}
			if d.Wrong == "" {
				continue
			}
			if _, err := d.Open(); err == nil || !strings.Contains(fault.HintOf(err), "h5repack") {
				t.Errorf("%s: %v", d.Path, err)
			}
		}
	}
	for _, file := range []string{"links_earliest.h5", "links_latest.h5", "user_block.h5"} {
		f := openFile(t, filepath.Join("testdata", file))
		notes := strings.Join(f.Notes, "\n")
		for _, want := range []string{`"other" is a link into another file`, `"nowhere" is a soft link to "/x/y"`,
			`"a/loop" is the group "a" once more`, `"a/up" is a soft link to the group "/a/b"`} {
			if !strings.Contains(notes, want) {
				t.Errorf("%s: %q is not told:\n%s", file, want, notes)
			}
		}
		soft := 0
		for _, d := range f.Datasets {
			if d.Link != "" {
				soft++
			}
		}
		if soft != 2 {
			t.Errorf("%s: %d datasets by soft links", file, soft)
		}
	}
}

// FuzzOpen: whatever stands in a file, reading it ends, without a panic.
func FuzzOpen(f *testing.F) {
	names, err := filepath.Glob("testdata/*.h5")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<17 {
			return
		}
		_ = readAll(data)
		trusting = true
		defer func() { trusting = false }()
		_ = readAll(data)
	})
}

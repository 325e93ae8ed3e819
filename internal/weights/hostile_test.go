package weights

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"assay/internal/testkit"
	"assay/internal/testset"
)

// safetensorsFile is a header with the length before it and so many bytes of data after it.
func safetensorsFile(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func npyFile(dict string, data int) []byte {
	b := append([]byte("\x93NUMPY\x01\x00"), byte(len(dict)), byte(len(dict)>>8))
	return append(append(b, dict...), make([]byte, data)...)
}

func npyDict(descr, shape string) string {
	return fmt.Sprintf("{'descr': %s, 'fortran_order': False, 'shape': %s}", descr, shape)
}

// ggufFile joins texts (with their lengths before them) and numbers of little-endian.
func ggufFile(parts ...any) []byte {
	b := []byte("GGUF")
	for _, p := range parts {
		if s, ok := p.(string); ok {
			b = append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
			continue
		}
		b, _ = binary.Append(b, binary.LittleEndian, p)
	}
	return b
}

// zipFile is a zip file of entries that change may forge before they are written.
func zipFile(method uint16, entries map[string][]byte, change func(*zip.FileHeader)) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range sorted(entries) {
		data := entries[name]
		h := &zip.FileHeader{Name: name, Method: method, UncompressedSize64: uint64(len(data))}
		packed := data
		if method == zip.Deflate {
			var p bytes.Buffer
			w, _ := flate.NewWriter(&p, 9)
			w.Write(data)
			w.Close()
			packed = p.Bytes()
		}
		h.CompressedSize64 = uint64(len(packed))
		if change != nil {
			change(h)
		}
		w, _ := z.CreateRaw(h)
		w.Write(packed)
	}
	z.Close()
	return b.Bytes()
}

func sorted(entries map[string][]byte) []string {
	var names []string
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// anArray is what an npz of one array has.
var anArray = map[string][]byte{"a.npy": npyFile(npyDict("'<f4'", "(2,)"), 8)}

// ggufTensor and ggufEntry are a file of one tensor, and of one entry of metadata, whose parts follow.
func ggufTensor(parts ...any) []byte {
	return ggufFile(append([]any{uint32(3), uint64(1), uint64(0), "a"}, parts...)...)
}

func ggufEntry(parts ...any) []byte {
	return ggufFile(append([]any{uint32(3), uint64(0), uint64(1)}, parts...)...)
}

var hostile = []struct {
	name, file string
	data       []byte
	want       string
}{
	{"no length", "x.safetensors", []byte("1234"), "it has 4 bytes"},
	{"a header of 8 EiB", "x.safetensors", []byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"),
		"its header would have 18446744073709551615 bytes"},
	{"a header beyond the end", "x.safetensors", safetensorsFile("{}", 0)[:9],
		"its header has 2 bytes, and the file 1 after"},
	{"a page of HTML", "x.safetensors", []byte("<!DOCTYPE html><html>"), "it is no safetensors file"},
	{"a pointer", "x.safetensors", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:1\n"),
		"a pointer of Git LFS"},
	{"overlap", "x.safetensors", safetensorsFile(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},`+
		`"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}`, 6),
		`tensor "b" begins at byte 2 of the data, where "a" lies, up to byte 4`},
	{"one twice", "x.safetensors", safetensorsFile(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},`+
		`"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, 4), `tensor "b" begins at byte 0`},
	{"hole", "x.safetensors", safetensorsFile(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2),
		`no tensor has bytes 0 to 1 of the data, before "a"`},
	{"more", "x.safetensors", safetensorsFile(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 3),
		"no tensor has the last 2 bytes"},
	{"beyond the end", "x.safetensors", safetensorsFile(`{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}`, 3),
		`tensor "a" ends at byte 9 of the data, and they have 3`},
	{"negative offset", "x.safetensors", safetensorsFile(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}}`, 0),
		`"a": its data_offsets are [-1 0]`},
	{"backwards", "x.safetensors", safetensorsFile(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}`, 1),
		"its data_offsets are [1 0]"},
	{"offsets too large",
		"x.safetensors", safetensorsFile(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,9223372036854775808]}}`, 1),
		"9223372036854775808 is no number that it can have"},
	{"negative shape", "x.safetensors", safetensorsFile(`{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`, 1),
		"its shape is [-1]"},
	{"a product of 2^64",
		"x.safetensors", safetensorsFile(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0),
		"its shape is [4294967296 4294967296]"},
	{"2^62 of four bytes",
		"x.safetensors", safetensorsFile(`{"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}}`, 0),
		"its shape is [4611686018427387904]"},
	{"too few bytes", "x.safetensors", safetensorsFile(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4),
		"it has 4 bytes, and [2] of F32 8"},
	{"half a byte", "x.safetensors", safetensorsFile(`{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}`, 1),
		"are 12 bits"},
	{"a name twice", "x.safetensors", safetensorsFile(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`+
		`"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), `"a" stands there twice`},
	{"a key twice",
		"x.safetensors", safetensorsFile(`{"a":{"dtype":"U8","dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, 0),
		`"dtype" stands there twice`},
	{"no shape", "x.safetensors", safetensorsFile(`{"a":{"dtype":"U8","data_offsets":[0,0]}}`, 0),
		"it has not each of"},
	{"shape null", "x.safetensors", safetensorsFile(`{"a":{"dtype":"U8","shape":null,"data_offsets":[0,0]}}`, 0),
		"null stands where"},
	{"shape of texts", "x.safetensors", safetensorsFile(`{"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}}`, 1),
		"no number that it can have"},
	{"a type that moves the cursor",
		"x.safetensors", safetensorsFile(`{"a":{"dtype":"\u001b[2J","shape":[],"data_offsets":[0,1]}}`, 1),
		`its type is "\x1b[2J"`},
	{"not UTF-8", "x.safetensors", safetensorsFile("{\"\xff\":1}", 0), "not in UTF-8"},
	{"no object", "x.safetensors", safetensorsFile(`[1]`, 0), "[ stands where an object should"},
	{"cut off", "x.safetensors", safetensorsFile(`{"a":{"dtype"`, 0), "unexpected EOF"},
	{"two objects", "x.safetensors", safetensorsFile(`{}{}`, 0), "something follows it"},
	{"metadata that is a number", "x.safetensors", safetensorsFile(`{"__metadata__":{"a":1}}`, 0),
		`"a" is 1, and no text`},
	{"brackets", "x.safetensors", safetensorsFile(`{"a":{"x":`+strings.Repeat("[", 100000)+`}}`, 0),
		"exceeded max depth"},

	{"version", "x.npy", []byte("\x93NUMPY\x09\x00\x00\x00aa"), "version 9.0 of NumPy's format"},
	{"a version between", "x.npy", []byte("\x93NUMPY\x01\x01\x02\x00{}"), "version 1.1 of NumPy's format"},
	{"cut in the header", "x.npy", npyFile(npyDict("'<f4'", "(2,)"), 8)[:30], "does not lie in it whole"},
	{"a header of 4 GiB", "x.npy", []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff{}"), "its header has 4294967295 bytes"},
	{"cut in the data", "x.npy", npyFile(npyDict("'<f4'", "(2,)"), 7), "[2] of F32 has 8 bytes, and 7 follow"},
	{"bytes after", "x.npy", npyFile(npyDict("'<f4'", "(2,)"), 9), "1 bytes follow its data"},
	{"a bomb", "x.npy", npyFile(npyDict("'<f4'", "(1099511627776, 1048576)"), 8),
		"[1099511627776 1048576] of F32 has 4611686018427387904 bytes"},
	{"too many", "x.npy", npyFile(npyDict("'<f4'", "(1099511627776, 1099511627776)"), 8),
		"its shape is [1099511627776 1099511627776]"},
	{"negative", "x.npy", npyFile(npyDict("'<f4'", "(-1,)"), 8), "its shape is [-1]"},
	{"dimensions", "x.npy", npyFile(npyDict("'<f4'", "("+strings.Repeat("1,", 65)+")"), 4), "its shape is [1 1"},
	{"a call", "x.npy", npyFile("__import__('os').system('true')", 8), `"__import__" is no value that NumPy writes`},
	{"code as shape", "x.npy", npyFile(npyDict("'<f4'", "exit()"), 8), `"exit" is no value that NumPy writes`},
	{"brackets", "x.npy", npyFile(npyDict("'<f4'", strings.Repeat("(", 9000)), 8), "more than 16 brackets"},
	{"an escape", "x.npy", npyFile(npyDict(`'<f4\x00'`, "()"), 4), "has an escape"},
	{"a key twice", "x.npy", npyFile("{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': ()}", 4),
		"stands there twice"},
	{"objects", "x.npy", npyFile(npyDict("'|O'", "(1,)"), 8), "objects, which only Python could unpickle"},
	{"strings", "x.npy", npyFile(npyDict("'<U3'", "(1,)"), 12), "strings"},
	{"structured", "x.npy", npyFile(npyDict("[('a', '<f4')]", "(1,)"), 4), "structured type [[a <f4]]"},
	{"no order", "x.npy", npyFile(npyDict("'=f4'", "(1,)"), 4), "does not say in which order"},
	{"bfloat16", "x.npy", npyFile(npyDict("'<V2'", "(1,)"), 2), "bytes of which NumPy does not know"},

	{"no zip", "x.npz", []byte("PK\x03\x04 and nothing more"), "no whole zip file"},
	{"a forged size", "x.npz", zipFile(zip.Deflate, anArray,
		func(h *zip.FileHeader) { h.UncompressedSize64 = 1 << 40 }), "1099511627776 bytes cannot be packed in"},
	{"a header that promises more", "x.npz", zipFile(zip.Deflate, map[string][]byte{"a.npy": npyFile(npyDict("'<f4'",
		"(1099511627776,)"), 8)}, nil),
		"has 4398046511104 bytes, and 8 follow"},
	{"a stored entry of another size", "x.npz", zipFile(zip.Store, anArray,
		func(h *zip.FileHeader) { h.UncompressedSize64++ }), "cannot be packed in"},
	{"an entry beyond the end", "x.npz", zipFile(zip.Store, anArray,
		func(h *zip.FileHeader) { h.CompressedSize64, h.UncompressedSize64 = 1<<40, 1<<40 }),
		"they lie on each other"},
	{"encrypted", "x.npz", zipFile(zip.Store, anArray,
		func(h *zip.FileHeader) { h.Flags |= 1 }), "it is encrypted"},
	{"another method", "x.npz", zipFile(zip.Store, anArray,
		func(h *zip.FileHeader) { h.Method = 12 }), "packed by method 12"},
	{"an entry that is none", "x.npz", zipFile(zip.Store, map[string][]byte{"a.npy": []byte("hello")}, nil),
		`entry "a.npy": it does not begin`},

	{"version 1", "x.gguf", ggufFile(uint32(1)), "version 1 of GGUF"},
	{"big-endian", "x.gguf", ggufFile(uint32(3 << 24)), "big-endian GGUF"},
	{"2^60 tensors", "x.gguf", ggufFile(uint32(3), uint64(1<<60), uint64(0)),
		"it would have 1152921504606846976 tensors"},
	{"tensors that are not there", "x.gguf", ggufFile(uint32(3), uint64(1000), uint64(0)), "unexpected EOF"},
	{"a key of 2^63", "x.gguf", ggufEntry(uint64(1 << 63)), "unexpected EOF"},
	{"a text of 2^40", "x.gguf", ggufEntry("k", uint32(8), uint64(1<<40)), "unexpected EOF"},
	{"an array of 2^61", "x.gguf", ggufEntry("k", uint32(9), uint32(10), uint64(1<<61)), "unexpected EOF"},
	{"an array of arrays", "x.gguf", ggufEntry("k", uint32(9), uint32(9), uint64(1)), "an array of type 9"},
	{"a value of no type", "x.gguf", ggufEntry("k", uint32(77)), "a value of type 77"},
	{"a key twice", "x.gguf",
		ggufFile(uint32(3), uint64(0), uint64(2), "k", uint32(0), uint8(1), "k", uint32(0), uint8(1)),
		`"k" stands in its metadata twice`},
	{"alignment 3", "x.gguf", ggufEntry("general.alignment", uint32(4), uint32(3)), `its alignment is "3"`},
	{"alignment 0", "x.gguf", ggufEntry("general.alignment", uint32(4), uint32(0)), `its alignment is "0"`},
	{"99 dimensions", "x.gguf", ggufTensor(uint32(99)), "has 99 dimensions"},
	{"a type that is not known", "x.gguf", ggufTensor(uint32(1), uint64(1), uint32(4), uint64(0)),
		"of type 4, which is not known"},
	{"half a block", "x.gguf", ggufTensor(uint32(1), uint64(33), uint32(2), uint64(0)), "a block of Q4_0 has 32"},
	{"2^63 elements", "x.gguf", ggufTensor(uint32(1), uint64(1<<63), uint32(0), uint64(0)), "its shape is"},
	{"data beyond the end", "x.gguf", ggufTensor(uint32(1), uint64(8), uint32(0), uint64(0)),
		`tensor "a" ends at byte`},
	{"an offset of 2^63", "x.gguf", ggufTensor(uint32(1), uint64(1), uint32(0), uint64(1<<63)),
		"from byte -9223372036854775808"},
	{"overlap", "x.gguf", append(ggufFile(uint32(3), uint64(2), uint64(0),
		"a", uint32(1), uint64(64), uint32(24), uint64(0),
		"b", uint32(1), uint64(64), uint32(24), uint64(32)), make([]byte, 200)...),
		`tensor "b" begins at byte 32 of the data, where "a" lies`},
	{"no aligned offset", "x.gguf", append(ggufTensor(uint32(1), uint64(4), uint32(24), uint64(4)),
		make([]byte, 200)...), "no multiple of 32"},
	{"a name twice", "x.gguf", append(ggufFile(uint32(3), uint64(2), uint64(0),
		"a", uint32(1), uint64(0), uint32(24), uint64(0),
		"a", uint32(1), uint64(0), uint32(24), uint64(0)), make([]byte, 200)...), `two tensors are named "a"`},

	{"up", "x.index.json", []byte(`{"weight_map":{"a":"../x.safetensors"}}`), `would lie in "../x.safetensors"`},
	{"absolute", "x.index.json", []byte(`{"weight_map":{"a":"/etc/passwd"}}`), `would lie in "/etc/passwd"`},
	{"itself", "x.index.json", []byte(`{"weight_map":{"a":"x.index.json"}}`), `would lie in "x.index.json"`},
	{"the folder", "x.index.json", []byte(`{"weight_map":{"a":"."}}`), "it is no regular file"},
	{"no file", "x.index.json", []byte(`{"weight_map":{"a":"b.safetensors"}}`),
		"b.safetensors, which it names, is not there"},
	{"a number", "x.index.json", []byte(`{"weight_map":{"a":1}}`), "1 is no name of a file"},
	{"no map", "x.index.json", []byte(`{}`), "it has no weight_map"},
	{"a tensor twice", "x.index.json", []byte(`{"weight_map":{"a":"b","a":"b"}}`), `"a" stands there twice`},
	{"nothing", "x.bin", nil, "it is of no kind that is known"},
}

// TestHostileFiles: what a file forges is one error that names it, and no memory is taken for what it promises.
func TestHostileFiles(t *testing.T) {
	for _, c := range hostile {
		t.Run(filepath.Ext(c.file)[1:]+": "+c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f, err := Open(path)
			runtime.ReadMemStats(&after)
			if err == nil {
				f.Close()
				t.Fatal("it was opened")
			}
			said, ok := strings.CutPrefix(err.Error(), "reading weights from "+path+": ")
			if !ok || !strings.Contains(said, c.want) || strings.Contains(said, "\n") {
				t.Errorf("%v\nwant %q", err, c.want)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
				t.Errorf("it took %d bytes", took)
			}
		})
	}
}

// TestBounds: what is only too much is refused as well.
func TestBounds(t *testing.T) {
	refused := func(path, want string) {
		t.Helper()
		if f, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v, want %q", f, err, want)
		}
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "large.index.json")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, maxIndex+1); err != nil {
		t.Skip("no sparse files here: ", err)
	}
	refused(path, "it has 268435457 bytes, and an index 268435456 at most")

	var index strings.Builder
	index.WriteString(`{"weight_map":{`)
	for i := range maxShards + 1 {
		fmt.Fprintf(&index, `"%d":"%d.npz",`, i, i)
	}
	path = filepath.Join(folder, "many.index.json")
	said := strings.TrimSuffix(index.String(), ",") + "}}"
	if err := os.WriteFile(path, []byte(said), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(path, "it names more than 4096 files")

	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for range 2 {
		w, _ := z.Create("a.npy")
		w.Write(anArray["a.npy"])
	}
	z.Close()
	path = filepath.Join(folder, "twice.npz")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(path, `two entries are named "a.npy"`)

	parts := []any{uint32(3), uint64(0), uint64(maxGGUFText/maxGGUFWord + 1)}
	word := strings.Repeat("a", maxGGUFWord)
	for i := range maxGGUFText/maxGGUFWord + 1 {
		parts = append(parts, fmt.Sprint(i), uint32(8), word)
	}
	data := ggufFile(parts...)
	err := newGGUF(bytes.NewReader(data), int64(len(data))).read()
	if err == nil || err.Error() != "its names and texts have more than 16777216 bytes" {
		t.Error(err)
	}
	long := ggufFile(uint32(3), uint64(0), uint64(1), "k", uint32(8), word+word)
	p := newGGUF(bytes.NewReader(long), int64(len(long)))
	if err := p.read(); err != nil || p.meta["k"] != word+"…" {
		t.Errorf("a text of %d bytes is kept by %d, %v", 2*len(word), len(p.meta["k"]), err)
	}
	long = ggufFile(uint32(3), uint64(0), uint64(1), word+"a", uint32(8), "")
	if err := newGGUF(bytes.NewReader(long), int64(len(long))).read(); err == nil {
		t.Error("a key of more than 64 KiB is one")
	}
}

// TestHeaderThatReadersRefuse is not written.
func TestHeaderThatReadersRefuse(t *testing.T) {
	testset.FullOnly(t)
	plan := []Tensor{{Name: strings.Repeat("a", maxSafetensorsHeader), DType: F32}}
	_, err := Create(filepath.Join(t.TempDir(), "x.safetensors"), nil, plan)
	if err == nil || !strings.Contains(err.Error(), "and readers take 100000000") {
		t.Error(err)
	}
}

// TestCutOffWhileOpen: a file that becomes shorter after its header was read is an error that names the tensor.
func TestCutOffWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	data := safetensorsFile(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, 4)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f := openFor(t, path)
	if err := os.Truncate(path, int64(len(data)-1)); err != nil {
		t.Fatal(err)
	}
	_, err := f.Tensors[0].Sum()
	if err == nil || !strings.HasPrefix(err.Error(), `tensor "a": only 3 of its 4 bytes came`) {
		t.Error(err)
	}
}

// TestPackedChecksum: an array whose stream does not hold what its checksum says is an error.
func TestPackedChecksum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npz")
	data := zipFile(zip.Deflate, map[string][]byte{"a.npy": npyFile(npyDict("'<f4'", "(2,)"), 8)},
		func(h *zip.FileHeader) { h.CRC32 = 1 })
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := openFor(t, path).Tensors[0].Sum()
	if err == nil || !strings.Contains(err.Error(), "checksum error") {
		t.Error(err)
	}
}

// TestBeyond4GB: a tensor that begins after 4 GiB, in a file of which hardly anything is on the disk.
func TestBeyond4GB(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	const large = 5 << 30
	header := fmt.Sprintf(`{"large":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]},`+
		`"last":{"dtype":"U8","shape":[3],"data_offsets":[%d,%d]}}`, large/4, large, large, large+3)
	if err := os.WriteFile(path, safetensorsFile(header, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	end := int64(8 + len(header) + large)
	if err := os.Truncate(path, end); err != nil {
		t.Skip("no sparse files here: ", err)
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	out.Close()
	f := openFor(t, path)
	if n := f.Tensors[0].Bytes; n != large {
		t.Errorf("%d bytes, want %d", n, int64(large))
	}
	r, err := f.Tensors[1].Open()
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(r); string(data) != "abc" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}

// TestLargeArrays: arrays in Fortran order of more than a block, stored and packed, against NumPy, which makes them.
func TestLargeArrays(t *testing.T) {
	testset.FullOnly(t)
	python := os.Getenv("ASSAY_WEIGHTS_PYTHON")
	if python == "" {
		t.Skip("ASSAY_WEIGHTS_PYTHON names no Python with what testdata/make.py needs")
	}
	holdToRecord(t, makeLarge(t, python))
}

// TestNumPyReadsWhatIsWritten: an npz of ours is to NumPy what it was read from.
func TestNumPyReadsWhatIsWritten(t *testing.T) {
	testset.FullOnly(t)
	path := filepath.Join(t.TempDir(), "again.npz")
	copyTensors(t, path, nil, openFor(t, "testdata/stored.npz").Tensors)
	const compare = `import sys, numpy as np
a, b = np.load(sys.argv[1]), np.load(sys.argv[2])
assert list(a) == list(b), (list(a), list(b))
for name in a:
    assert a[name].dtype == b[name].dtype and a[name].shape == b[name].shape, name
    assert a[name].tobytes() == b[name].tobytes(), name`
	out, err := exec.Command(testkit.Python(t), "-c", compare, "testdata/stored.npz", path).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// makeLarge has NumPy make the large files of testdata/make.py, and gives their folder.
func makeLarge(t *testing.T, python string) string {
	t.Helper()
	folder := t.TempDir()
	if out, err := exec.Command(python, "testdata/make.py", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return folder
}

package weights

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"assay/internal/fault"
	"assay/internal/pickle"
	"assay/internal/testset"
)

// A torchEntry of a file that a test makes.
type torchEntry struct {
	name, content string
	method        uint16
}

func torchZipOf(t testing.TB, entries ...torchEntry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		to, err := w.CreateHeader(&zip.FileHeader{Name: e.name, Method: e.method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(to, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// longOf is a pickle's operation for it.
func longOf(n int64) string {
	return "\x8a\x08" + string(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

func longTuple(list ...int64) string {
	made := "("
	for _, n := range list {
		made += longOf(n)
	}
	return made + "t"
}

// storageOf is the persistent id of a storage.
func storageOf(class, key string, elements int64) string {
	return fmt.Sprintf("(S'storage'\nctorch\n%s\nS'%s'\nS'cpu'\n%stQ", class, key, longOf(elements))
}

// tensorOf is a tensor of a storage.
func tensorOf(storage string, offset int64, size, stride string) string {
	return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + longOf(offset) + size + stride + "I00\nNtR"
}

func torchZip(t testing.TB, pickled string, more ...torchEntry) []byte {
	return torchZipOf(t, append([]torchEntry{{name: "a/data.pkl", content: pickled}}, more...)...)
}

// readTorchFile opens a file and reads each of its tensors.
func readTorchFile(path string) error {
	file, err := Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return readTorchTensors(file)
}

func readTorchTensors(file *File) error {
	for _, tensor := range file.Tensors {
		if strings.Contains(tensor.Note, "without data") {
			continue
		}
		if tensor.Bytes > 64<<20 { // of a fuzz target: an expanded view
			continue
		}
		r, err := tensor.Open()
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, r)
		r.Close()
		if err != nil {
			return err
		}
		if n != tensor.Bytes {
			return fmt.Errorf("%s: %d bytes where %d were told", tensor.Name, n, tensor.Bytes)
		}
	}
	return nil
}

// TestHostileTorchFiles: each is refused with one error that says why, and little memory is taken for it.
func TestHostileTorchFiles(t *testing.T) {
	f32 := func(key string, n int64) string { return storageOf("FloatStorage", key, n) }
	four := torchEntry{name: "a/data/0", content: "0123456789abcdef"}
	row := longTuple(4)
	one := longTuple(1)
	overlapping := torchZip(t, tensorOf(f32("0", 4), 0, row, one)+".", four, torchEntry{name: "a/data/1", content: "x"})
	at := bytes.LastIndex(overlapping, []byte("a/data/1")) - 46 // its place in the list of entries
	binary.LittleEndian.PutUint32(overlapping[at+42:], uint32(bytes.Index(overlapping, []byte("a/data/0"))-30))
	// the local header of a/data/0 has a name as long, so that entry 1 is read from the place of entry 0
	for name, c := range map[string]struct {
		content []byte
		says    string
	}{
		"os.system":           {torchZip(t, "cos\nsystem\n(S'id'\ntR."), "os.system at byte 0, which runs code"},
		"eval behind a model": {torchZip(t, "}S'a'\ncbuiltins\neval\n(S'1'\ntRs."), "builtins.eval at byte 6"},
		"a forged kind of id": {torchZip(t, "(S'module'\nS'x'\ntQ.", four), "no storage"},
		"an id that is text":  {torchZip(t, "Pstorage\n.", four), "no storage"},
		"an id of a class": {torchZip(t, "(S'storage'\ncm\nStorage\nS'0'\nS'cpu'\n"+longOf(4)+"tQ.", four),
			"not said as torch says it"},
		"a storage beyond its record": {torchZip(t, tensorOf(f32("0", 5), 0, row, one)+".", four),
			"20 bytes, and its record 16"},
		"a storage of 2^62 elements": {torchZip(t, tensorOf(f32("0", 1<<62), 0, row, one)+".", four), "elements"},
		"a storage of -1 elements":   {torchZip(t, tensorOf(f32("0", -1), 0, row, one)+".", four), "-1 elements"},
		"a storage that is not there": {torchZip(t, tensorOf(f32("../../etc/passwd", 4), 0, row, one)+".", four),
			"nowhere in the file"},
		"an offset beyond": {torchZip(t, tensorOf(f32("0", 4), 1, row, one)+".", four),
			"reach element 4 of a storage of 4"},
		"an offset of -1": {torchZip(t, tensorOf(f32("0", 4), -1, row, one)+".", four), "element -1"},
		"a stride beyond": {torchZip(t, tensorOf(f32("0", 4), 0, row, longTuple(2))+".", four), "reach element 6"},
		"a stride below":  {torchZip(t, tensorOf(f32("0", 4), 3, row, longTuple(-1))+".", four), "negative"},
		"a size below":    {torchZip(t, tensorOf(f32("0", 4), 0, longTuple(-4), one)+".", four), "negative"},
		"a stride of 2^62": {torchZip(t, tensorOf(f32("0", 4), 0, longTuple(4, 4), longTuple(1<<62, 1<<62))+".", four),
			"counted"},
		"a size of 2^64": {torchZip(t, tensorOf(f32("0", 4), 0, longTuple(1<<32, 1<<32), longTuple(0, 0))+".", four),
			"counted"},
		"an element a petabyte long": {torchZip(t, tensorOf(f32("0", 4), 0, longTuple(1<<48), longTuple(0))+".", four),
			"bytes of a storage of 16"},
		"more strides than sizes": {torchZip(t, tensorOf(f32("0", 4), 0, row, longTuple(1, 1))+".", four),
			"the stride [1 1]"},
		"a thousand dimensions": {torchZip(t,
			tensorOf(f32("0", 4), 0, longTuple(make([]int64, 1000)...), one)+".", four),
			"64 integers"},
		"a list doubled 60 times": {torchZip(t, laughs(60, tensorOf(f32("0", 4), 0, row, one)), four), "256 places"},
		"a list nested 1000 deep": {torchZip(t, strings.Repeat("]", 1000)+strings.Repeat("a", 999)+"."), "deep"},
		"long names of many places": {torchZip(t, "}X\x84\x03\x00\x00"+strings.Repeat("n", 900)+"("+
			strings.Repeat("}", 80_000)+"ls."), "64 MiB"},
		"a name of a megabyte": {torchZip(t, "}X\x00\x00\x10\x00"+strings.Repeat("n", 1<<20)+
			tensorOf(f32("0", 4), 0, row, one)+"s.", four), "more than 1000 bytes"},
		"an entry that leads out": {torchZip(t, "N.", torchEntry{name: "a/../../.bashrc", content: "x"}),
			"leads out"},
		"an entry from the root": {torchZip(t, "N.", torchEntry{name: "/etc/passwd", content: "x"}),
			"leads out"},
		"an entry twice":       {torchZip(t, "N.", four, four), "two entries"},
		"entries that overlap": {overlapping, "overlap"},
		"a zip of zips": {torchZipOf(t, torchEntry{"lib 0.zip", strings.Repeat("P", 99), zip.Deflate}),
			"data.pkl"},
		"a pickle that is a bomb": {torchZip(t, "N."), ""}, // replaced below
		"a byteorder of neither": {torchZip(t, "N.", torchEntry{name: "a/byteorder", content: "middle"}),
			"middle"},
		"no zip at all":                    {[]byte("PK\x03\x04" + strings.Repeat("x", 600)), "list of entries"},
		"the tar form":                     {[]byte("pickle" + strings.Repeat("\x00", 251) + "ustar"), "tar form"},
		"a legacy file of another version": {[]byte(legacyStart("I1002\n.")), "version is not 1001"},
		"a legacy file that calls":         {[]byte(legacyStart("I1001\n.}.cos\nsystem\n(S'id'\ntR.")), "os.system"},
		"a legacy storage beyond the file": {[]byte(legacyStart("I1001\n.}." +
			tensorOf(strings.TrimSuffix(f32("0", 1<<40), "tQ")+"NtQ", 0, row, one) + ".(S'0'\nl." +
			string(binary.LittleEndian.AppendUint64(nil, 1<<40)))), "bytes where its storages need"},
		"a legacy storage of two lengths": {[]byte(legacyStart("I1001\n.}." +
			tensorOf(strings.TrimSuffix(f32("0", 4), "tQ")+"NtQ", 0, row, one) + ".(S'0'\nl." +
			string(binary.LittleEndian.AppendUint64(nil, 9)) + "0123456789abcdef")), "9 elements"},
		"a legacy storage that is not listed": {[]byte(legacyStart("I1001\n.}." +
			tensorOf(strings.TrimSuffix(f32("0", 4), "tQ")+"NtQ", 0, row, one) + ".(l.")), "nowhere in the file"},
		"a legacy part beyond its storage": {[]byte(legacyStart("I1001\n.}." + tensorOf(
			strings.TrimSuffix(f32("0", 4), "tQ")+"(S'v'\nI3\nI2\nttQ", 0, row, one) + ".(S'0'\nl.")), "outside of it"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a pickle that is a bomb" {
				testset.FullOnly(t) // a second
				c.content = torchZipOf(t, torchEntry{"a/data.pkl", strings.Repeat("N0", 32<<20), zip.Deflate})
				c.says = "operations"
			}
			path := filepath.Join(t.TempDir(), "hostile.pth")
			if err := os.WriteFile(path, c.content, 0o600); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := readTorchFile(path)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want %q", err, c.says)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 128<<20+20*uint64(len(c.content)) {
				t.Errorf("%d bytes of memory taken for a file of %d", took, len(c.content))
			}
			if text := err.Error(); strings.Count(text, "\n") > 0 || len(text) > 1000 {
				t.Errorf("the error is no line: %q", text)
			}
			var refusal *pickle.Refusal
			if errors.As(err, &refusal) && fault.HintOf(err) == "" {
				t.Error("it does not say what to do next")
			}
		})
	}
}

func laughs(n int, what string) string {
	made := "]q\x00" + what + "a0"
	for i := range n {
		made += fmt.Sprintf("(h%ch%clq%c0", i, i, i+1)
	}
	return made + "h" + string(rune(n)) + "."
}

func legacyStart(rest string) string {
	return "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19." + rest
}

// TestRepeatedValues: what doubles and holds no tensor is gone through once.
func TestRepeatedValues(t *testing.T) {
	content := torchZip(t, laughs(60, "}"))
	file, err := readTorchZip(bytes.NewReader(content), int64(len(content)), "a")
	if err != nil || len(file.Tensors) > 0 {
		t.Errorf("got %v, %v", file, err)
	}
}

// TestTruncatedTorchFiles: cut off at any byte, a file is refused, and nothing panics.
func TestTruncatedTorchFiles(t *testing.T) {
	for _, name := range []string{"shared.pt", "shared-legacy.pth"} {
		whole, err := os.ReadFile(filepath.Join("testdata/torch", name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := readTorchFile(path); err != nil {
			t.Fatal(err)
		}
		for n := len(whole) - 1; n >= 0; n-- {
			if err := os.Truncate(path, int64(n)); err != nil {
				t.Fatal(err)
			}
			if err := readTorchFile(path); err == nil {
				t.Errorf("%s: its first %d bytes are taken for the whole", name, n)
			}
		}
	}
}

// TestDamagedTorchFiles: a byte that is another changes what is read or is refused, and nothing panics.
func TestDamagedTorchFiles(t *testing.T) {
	for _, name := range []string{"shared.pt", "shared-legacy.pth"} {
		whole, err := os.ReadFile(filepath.Join("testdata/torch", name))
		if err != nil {
			t.Fatal(err)
		}
		for at := range whole {
			for _, b := range []byte{0xff, whole[at] ^ 1} {
				damaged := bytes.Clone(whole)
				damaged[at] = b
				readTorchBytes(damaged)
			}
		}
	}
}

// readTorchBytes reads a file in memory in both ways.
func readTorchBytes(content []byte) {
	r, size := bytes.NewReader(content), int64(len(content))
	if file, err := readTorchZip(r, size, "a"); err == nil {
		_ = readTorchTensors(file)
	}
	if file, err := readTorchLegacy(r, size, "a"); err == nil {
		_ = readTorchTensors(file)
	}
}

func FuzzTorch(f *testing.F) {
	for _, name := range []string{"shared.pt", "shared-legacy.pth", "arrays.pt", "module.pt", "deflated.pt", "odd.pt"} {
		content, err := os.ReadFile(filepath.Join("testdata/torch", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Add(torchZip(f, tensorOf(storageOf("FloatStorage", "0", 4), 0, longTuple(2, 2), longTuple(1, 2))+".",
		torchEntry{name: "a/data/0", content: "0123456789abcdef"}))
	f.Fuzz(func(t *testing.T, content []byte) { readTorchBytes(content) })
}

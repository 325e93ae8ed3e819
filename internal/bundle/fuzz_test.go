package bundle

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzUnpack: whatever a tar holds, nothing comes to lie outside of the folder, no link in it leads out, and nothing
// stays of one that is refused. The fuzzer's bytes are put into a tar as names and links: a compressed file would only
// be refused.
func FuzzUnpack(f *testing.F) {
	f.Add("a/b", "l", "../a", byte(tar.TypeSymlink))
	f.Add("l/x", "l", "..", byte(tar.TypeSymlink))
	f.Add("x", "x", "/etc/passwd", byte(tar.TypeSymlink))
	f.Add("d/e/f", "d/e/l", "../../..", byte(tar.TypeSymlink))
	f.Add("../x", "y", "x", byte(tar.TypeLink))
	f.Add("a", "b", "", byte(tar.TypeDir))
	f.Fuzz(func(t *testing.T, name, second, to string, kind byte) {
		var out bytes.Buffer
		err := packed(&out, func(w *tar.Writer) error {
			if err := w.WriteHeader(header(name, "", 0o644, 0)); err != nil {
				return err
			}
			h := header(second, to, 0o644, 0)
			h.Typeflag = kind
			return w.WriteHeader(h)
		})
		if err != nil {
			t.Skip() // a tar cannot say it
		}
		dir := t.TempDir()
		into := filepath.Join(dir, "into")
		small := bounds{entries: 100, free: 1 << 20}
		err = small.unpack(bytes.NewReader(out.Bytes()), int64(out.Len()), into)
		list, _ := os.ReadDir(dir)
		if err != nil && len(list) != 0 || err == nil && len(list) != 1 {
			t.Fatalf("%v, and %v lies there", err, list)
		}
		if err != nil {
			return
		}
		_ = filepath.WalkDir(into, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Type()&fs.ModeSymlink == 0 {
				return err
			}
			real, err := filepath.EvalSymlinks(path)
			if err == nil && real != into && !strings.HasPrefix(real, into+"/") {
				t.Errorf("%s leads to %s", path, real)
			}
			return nil
		})
	})
}

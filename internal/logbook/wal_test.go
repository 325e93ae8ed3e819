package logbook

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// killed is a logbook as a killed writer leaves it: what was committed stands in the write-ahead log alone.
func killed(t *testing.T, records int) (path string, wal []byte) {
	t.Helper()
	dir := t.TempDir()
	b := mustOpen(t, filepath.Join(dir, "open.db"))
	for i := range records {
		if _, err := b.Note(ctx, time.Unix(int64(i), 0), fmt.Sprint("note ", i, strings.Repeat(" and so on", 300)), nil,
			keep(t, b, sample(t))); err != nil {
			t.Fatal(err)
		}
	}
	path = filepath.Join(dir, "killed.db")
	for _, end := range []string{"", "-wal"} {
		data, err := os.ReadFile(filepath.Join(dir, "open.db"+end))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+end, data, 0o644); err != nil {
			t.Fatal(err)
		}
		wal = data
	}
	return path, wal
}

func problemsOf(t *testing.T, path string, wal []byte) []string {
	t.Helper()
	if err := os.WriteFile(path+"-wal", wal, 0o644); err != nil {
		t.Fatal(err)
	}
	problems, err := CheckWAL(path)
	if err != nil {
		t.Fatal(err)
	}
	return problems
}

// TestWAL: a byte changed anywhere in the write-ahead log is found; a log as killed writers leave it is not said to be
// changed.
func TestWAL(t *testing.T) {
	path, wal := killed(t, 12)
	if problems := problemsOf(t, path, wal); len(problems) > 0 {
		t.Fatalf("as it was left: %v", problems)
	}
	const frame = 24 + 4096
	frames := (len(wal) - 32) / frame
	if frames < 20 {
		t.Fatalf("%d frames", frames)
	}
	for _, place := range []int{0, 5, 9, 13, 17, 25, 31, 32, 40, 45, 50, 32 + 24, 32 + frame/2, 32 + 5*frame + 1, 32 +
		5*frame + 20, 32 + 7*frame + 2000,
		32 + (frames-2)*frame + 100, 32 + (frames-1)*frame + 100, len(wal) - 1} {
		changed := bytes.Clone(wal)
		changed[place] ^= 0x10
		if problems := problemsOf(t, path, changed); len(problems) != 1 {
			t.Errorf("byte %d of %d: %v", place, len(wal), problems)
		}
	}
	for name, left := range map[string][]byte{
		"none":               nil,
		"in its header":      wal[:20],
		"in a frame":         wal[:len(wal)-100],
		"between two frames": wal[:32+8*frame],
		"an earlier round's": append(bytes.Clone(wal[:32+8*frame]), bytes.Repeat(append(append([]byte{0, 0, 0, 5, 0, 0,
			0, 9}, make([]byte, 16)...), make([]byte, 4096)...), 3)...),
		"spilled, not commit": append(bytes.Clone(wal), append(append([]byte{0, 0, 0, 5, 0, 0, 0, 0}, wal[16:24]...),
			make([]byte, 8+4096)...)...),
	} {
		if problems := problemsOf(t, path, left); len(problems) > 0 {
			t.Errorf("cut off %s: %v", name, problems)
		}
	}
}

package symptom

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"assay/internal/atlas"
)

// TestLinesAsTheyCome: a log says the same however it arrives, and lines are counted as an editor counts them, empty
// ones and those that a progress bar overwrites too.
func TestLinesAsTheyCome(t *testing.T) {
	const known = "NotImplementedError: The operator 'aten::frob' is not currently implemented for the MPS device."
	for _, c := range []struct {
		log   string
		lines int
		at    int // line of the error; 0: none is there
	}{
		{"", 0, 0}, {"\n", 1, 0}, {"\n\n\n" + known, 4, 4}, {"\n\n\n" + known + "\n", 4, 4}, {known, 1, 1},
		{"50 %\r100 %\r\n\r\n" + known + "\n\n", 4, 3}, {"a\n" + known + "\r\nb", 3, 2},
		{"Frob\nFrobError: it\n\n", 3, 2}, {"x\n\n\nFrobError:\nit", 5, 4},
		{"Traceback (most recent call last):\n  File \"/u/t.py\", line 3, in f\n    g()\n" + known + "\n", 4, 4},
	} {
		whole, err := Scan("x", strings.NewReader(c.log))
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, s := range whole.Symptoms {
			at = s.Found[0].Line
		}
		for _, u := range whole.Unknown {
			at = u.Line
		}
		if whole.Lines != c.lines || at != c.at || len(whole.Symptoms)+len(whole.Unknown) > 1 {
			t.Errorf("%q: %d lines, want %d; error on %d, want %d", c.log, whole.Lines, c.lines, at, c.at)
		}
		bytewise, err := Scan("x", iotest.OneByteReader(strings.NewReader(c.log)))
		if err != nil || !reflect.DeepEqual(whole, bytewise) {
			t.Errorf("%q: a byte at a time it says %+v, %v", c.log, bytewise, err)
		}
	}
	if _, err := Scan("x", iotest.ErrReader(os.ErrPermission)); err == nil {
		t.Error("a log that cannot be read is not said to be")
	}
}

// TestSpan: the releases that a condition holds for are said as far as they are known.
func TestSpan(t *testing.T) {
	for want, c := range map[string]atlas.Condition{
		"":                                       {},
		"PyTorch 2.1":                            {From: "2.1", Until: "2.1"},
		"PyTorch 2.1 to 2.3":                     {From: "2.1", Until: "2.3"},
		"PyTorch from 2.1 on":                    {From: "2.1"},
		"PyTorch 2.1 to 2.3, right from 2.4 on":  {From: "2.1", Until: "2.3", Fixed: "2.4"},
		"PyTorch from 2.1 on, on macOS up to 14": {From: "2.1", MacOS: "up to 14"},
	} {
		if got := span(c); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
	if got := span(atlas.Condition{MacOS: "up to 14"}); got != "" {
		t.Errorf("a macOS alone: %q", got)
	}
}

// TestShortened: of a long line the part with the match is shown, of the length that is allowed, and whole letters.
func TestShortened(t *testing.T) {
	for _, n := range []int{mostKept - 1, mostKept, mostKept + 1} {
		line := strings.Repeat("x", n)
		if got := shorten(line); len(got) > mostKept+len(" …") || strings.HasSuffix(got, " …") != (n > mostKept) {
			t.Errorf("%d: %d bytes", n, len(got))
		}
		if got := excerpt(line, 0, 5); strings.HasSuffix(got, " …") != (n > mostKept) {
			t.Errorf("%d: %q", n, got)
		}
	}
	long := strings.Repeat("é", 2000) + "FROB" + strings.Repeat("é", 2000)
	for _, at := range []int{0, 79, 4000, 7999} {
		if got := excerpt(long, at, at+4); len(got) > mostKept+10 || strings.Contains(got, "�") ||
			(at == 4000) != strings.Contains(got, "FROB") {
			t.Errorf("at %d: %d bytes, %q", at, len(got), got)
		}
	}
}

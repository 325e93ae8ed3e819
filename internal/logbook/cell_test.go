package logbook

import (
	"strings"
	"testing"
)

// TestCell: what a spreadsheet would compute is text, by the list of OWASP's page on CSV injection; numbers are
// numbers.
func TestCell(t *testing.T) {
	for _, formula := range []string{"=1+1", "+1+1", "-1+1", "@SUM(A1)", "=HYPERLINK(\"http://evil\",\"x\")",
		"-2+3+cmd|' /C calc'!A0", "\t=1", "\r=1", "\n=1", " =1", "\u00a0=1", "\ufeff=1",
		"\u200b=1", "＝1+1", "＋1", "－1+1", "＠x", "-", "+", "=", "--5", "-5-5", "−1+1", "-1e", "+.", "\t5", "-0x1A"} {
		if got := Cell(formula); got != "'"+formula {
			t.Errorf("%q: %q", formula, got)
		}
	}
	for _, fine := range []string{"", "x", "train.py", "-1", "-1.5", "+3", "-1e-5", "-.5", "1", "a=b", "a-b", "x@y",
		"'x", "2.8.0", "5-3", "<b>"} {
		if got := Cell(fine); got != fine {
			t.Errorf("%q: %q", fine, got)
		}
	}
}

// TestMarkdownText: a stranger's text is one line of a list or a table, without HTML, links, images, code or headings
// of its own.
func TestMarkdownText(t *testing.T) {
	for _, text := range []string{"a|b", "`x`", "<script>", "[a](http://evil)", "![a](x)", "# h", "a\n\n# h",
		"*x* _y_ ~z~", "https://evil.example/x", "www.evil.example", "a@evil.example", "$x$", "&lt;b&gt;", "\x1b[31m",
		"<!-- x", "</td>", "\\|", "a\r\nb"} {
		got := md(text)
		for _, bad := range []string{"<", ">", "\n", "\r", "\x1b", "://", "@"} {
			if strings.Contains(got, bad) {
				t.Errorf("%q: %q holds %q", text, got, bad)
			}
		}
		for i, r := range got {
			if strings.ContainsRune("|`*_[]#!~$", r) && (i == 0 || got[i-1] != '\\') &&
				!strings.Contains(got, "&#64;") {
				t.Errorf("%q: %q: %c is not escaped", text, got, r)
			}
		}
		if strings.Contains(got, "www.") {
			t.Errorf("%q: %q is a link", text, got)
		}
	}
}

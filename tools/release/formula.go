package main

import (
	"fmt"
	"strings"
)

// placeholderURL stands where nobody said where the source archive will lie. The domain can never exist (RFC 2606).
const placeholderURL = "https://example.invalid/"

// formulaOf is the formula for Homebrew: it builds the source archive, whose SHA-256 it has
// (docs.brew.sh, Formula Cookbook).
func formulaOf(s *source, sum, sourceURL, homepage string) []byte {
	if sourceURL == "" {
		sourceURL = placeholderURL + s.sourceName()
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("class Assay < Formula")
	line("  desc %s", ruby(commandLine().Short))
	if homepage != "" {
		line("  homepage %s", ruby(homepage))
	}
	line("  url %s", ruby(sourceURL))
	line("  version %s", ruby(s.version.python))
	line("  sha256 %s", ruby(sum))
	line(`  license "Apache-2.0"`)
	line("")
	line(`  depends_on "go" => :build`)
	line("")
	line("  def install")
	line("    ldflags = %s", ruby("-s -w -X assay/internal/cli.release="+s.version.tag))
	line(`    system "go", "build", "-buildvcs=false", *std_go_args(ldflags: ldflags), "./cmd/assay"`)
	line(`    system "go", "run", "./tools/release", "--pages", "pages"`)
	line(`    bash_completion.install "pages/completions/bash/assay"`)
	line(`    fish_completion.install "pages/completions/fish/assay.fish"`)
	line(`    zsh_completion.install "pages/completions/zsh/_assay"`)
	line(`    man1.install Dir["pages/man/man1/*.1"]`)
	line("  end")
	line("")
	line("  test do")
	line(`    assert_match %s, shell_output("#{bin}/assay version")`, ruby(s.version.tag))
	line(`    assert_match "aten::softmax.int", shell_output("#{bin}/assay ops softmax")`)
	line("  end")
	line("end")
	return []byte(b.String())
}

// ruby writes a text as Ruby's literal.
func ruby(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `#`, `\#`).Replace(text) + `"`
}

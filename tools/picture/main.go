// picture makes the PNG of a page that the README shows:
//
//	assay run --on double --torch 2.0 --out rcnn -- python examples/double/rcnn.py
//	go run ./tools/picture rcnn/report.html docs/page.png
//
// It needs a Chromium on PATH, and shows the page's first 910 pixels at a width of 1000.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("give a page and the PNG to write: go run ./tools/picture report.html docs/page.png")
	}
	page, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	if _, err := os.Stat(page); err != nil {
		return err
	}
	var chromium string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if chromium, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("no Chromium on PATH: %w", err)
	}
	// --no-sandbox: in a container, as root, Chromium starts in no other way; the page is our own.
	cmd := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--window-size=1000,910", "--screenshot="+args[1], "file://"+page)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

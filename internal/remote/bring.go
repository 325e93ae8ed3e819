package remote

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"debug/macho"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/unit"
)

// look is what a host is asked first: its system, where its user's home and the node's files are, what assays are
// there, and how much may be written. Under Rosetta uname says x86_64, and sysctl the truth.
const look = `umask 077
root=${want:-${ASSAY_NODE:-$HOME/.assay-node}}
case $root in "~/"*) root=$HOME/${root#??} ;; esac
case $root in /*) ;; *) root=$HOME/$root ;; esac
echo "system $(uname -s) $(uname -m) $(sysctl -n hw.optional.arm64 2>/dev/null)"
echo "home $HOME"
echo "root $root"
for f in "$root"/bin/assay-*; do
if [ -f "$f" ] && [ -x "$f" ]; then echo "have $(($(wc -c <"$f"))) ${f##*/}"; fi
done
d=$root
while [ ! -d "$d" ]; do d=$(dirname "$d"); done
df -Pk "$d" 2>/dev/null | while read -r line; do echo "df $line"; done
echo end`

// How long a host may take: to answer, and at the slowest to take assay in, bytes a second.
const (
	lookTime = 2 * time.Minute
	slowest  = 32 << 10
)

var errSilent = errors.New("it does not answer in time")

// answer is what look found.
type answer struct {
	system, home, root string
	have               map[string]int64 // name of an assay there: bytes
	free               int64            // bytes; -1: not known
}

// percent is the column before which df says what is free.
var percent = regexp.MustCompile(`\s(\d+)\s+\d+%\s`)

// parse reads what look printed.
func parse(out []byte) (a answer, err error) {
	a.have, a.free = map[string]int64{}, -1
	whole := false
	for line := range strings.SplitSeq(string(out), "\n") {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "system":
			a.system, err = system(strings.Fields(rest))
			if err != nil {
				return a, err
			}
		case "home":
			a.home = rest
		case "root":
			a.root = rest
		case "have":
			size, name, _ := strings.Cut(rest, " ")
			if n, err := strconv.ParseInt(size, 10, 64); err == nil {
				a.have[name] = n
			}
		case "df":
			if m := percent.FindStringSubmatch(" " + rest + " "); m != nil {
				if n, err := strconv.ParseInt(m[1], 10, 64); err == nil && n < 1<<50 {
					a.free = n << 10
				}
			}
		case "end":
			whole = true
		}
	}
	if !whole || a.system == "" || !filepath.IsAbs(a.root) {
		return a, fmt.Errorf("its shell answers otherwise than a POSIX shell: %.200q", out)
	}
	return a, nil
}

// system is GOOS/GOARCH of what uname says: name, machine, and of a Mac 1 where its processor is Apple's.
func system(words []string) (string, error) {
	if len(words) < 2 {
		return "", fmt.Errorf("uname says %q there", words)
	}
	machine := map[string]string{"x86_64": "amd64", "amd64": "amd64", "arm64": "arm64", "aarch64": "arm64"}[words[1]]
	if words[0] == "Darwin" && len(words) > 2 && words[2] == "1" {
		machine = "arm64"
	}
	name := map[string]string{"Darwin": "darwin", "Linux": "linux"}[words[0]]
	if name == "" || machine == "" {
		return "", fault.Hint(fmt.Errorf("its system is %s on %s", words[0], words[1]),
			"assay is for macOS and Linux, on arm64 and x86_64")
	}
	return name + "/" + machine, nil
}

// bring finds out what the host is, and copies assay there where it is not.
func (h *Host) bring(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(ctx, lookTime, errSilent)
	defer cancel()
	out, err := h.run(limited, "want="+Quote(h.o.Root)+"\n"+look, nil)
	if err != nil {
		return err
	}
	a, err := parse(out)
	if err != nil {
		return fault.Hint(fmt.Errorf("reach %s: %w", h.o.Host, err), fault.HintOf(err))
	}
	h.system, h.home, h.root = a.system, a.home, a.root
	path, err := h.binary()
	if err != nil {
		return err
	}
	b, err := identify(path)
	if err != nil {
		return fmt.Errorf("read assay for %s: %w", h.o.Host, err)
	}
	if b.system != h.system {
		return fault.Hint(fmt.Errorf("%s is a program for %s, and %s is %s", path, b.system, h.o.Host, h.system),
			needs(h.system))
	}
	name := "assay-" + plainName(h.o.Version) + "-" + b.sum[:12]
	h.assay = h.root + "/bin/" + name
	if a.have[name] == b.size {
		return nil
	}
	if a.free >= 0 && a.free < b.size+b.size/8 {
		return fault.Hint(fmt.Errorf("copy assay to %s: the disk of %s has %s free there, and %s are needed",
			h.o.Host, h.root, unit.Bytes(float64(a.free)), unit.Bytes(float64(b.size))),
			"make room there, or name another folder there by ASSAY_NODE")
	}
	h.o.Log(fmt.Sprintf("copying assay to %s (%s, %s)", h.o.Host, h.system, unit.Bytes(float64(b.size))))
	return h.upload(ctx, path, name, b)
}

// plainName keeps a version within what a file's name may be anywhere.
func plainName(version string) string {
	s := strings.Map(func(r rune) rune {
		if plain(r) && r != '/' && r != '%' && r != ':' && r != '@' && r != ',' && r != '=' {
			return r
		}
		return '_'
	}, version)
	return s[:min(len(s), 80)]
}

// take receives a program, compressed, under a name of its own, and gives it its name when its sum is right and it runs
// there. Parts of those that were killed are swept: their process is gone.
const take = `umask 077
fail() { echo "assay: $1" >&2; exit 1; }
mkdir -p "$d" || fail "cannot make the folder $d"
for p in "$d"/.part-*; do
n=${p##*.}
if [ -f "$p" ] && ! kill -0 "$n" 2>/dev/null; then rm -f "$p"; fi
done
p=$d/.part-$name.$$
trap 'rm -f "$p"' 0
trap 'exit 1' 1 2 13 15
m=$(gzip -dc 2>&1 >"$p") || fail "cannot write $p: $m"
if command -v sha256sum >/dev/null 2>&1; then s=$(sha256sum <"$p")
elif command -v shasum >/dev/null 2>&1; then s=$(shasum -a 256 <"$p")
else s=$(openssl dgst -sha256 -r <"$p"); fi
case $s in "$sum"*) ;; *) fail "what came is not what was sent: its SHA-256 is $s" ;; esac
chmod 700 "$p"
m=$("$p" node settle 2>&1 </dev/null) || fail "it does not run there: $m"
case $m in "settled "*) ;; *) fail "it is no assay of this kind: $m" ;; esac
mv -f "$p" "$d/$name" || fail "cannot name it $d/$name"
echo taken`

func (h *Host) upload(ctx context.Context, path, name string, b binary) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	read, write := io.Pipe()
	defer read.Close()
	go func() {
		z, _ := gzip.NewWriterLevel(write, gzip.BestSpeed)
		_, err := io.Copy(z, f)
		if err == nil {
			err = z.Close()
		}
		write.CloseWithError(err)
	}()
	script := "d=" + Quote(h.root+"/bin") + "; name=" + Quote(name) + "; sum=" + b.sum + "\n" + take
	limited, cancel := context.WithTimeoutCause(ctx, lookTime+time.Duration(b.size/slowest)*time.Second, errSilent)
	defer cancel()
	out, err := h.run(limited, script, read)
	if err == nil && strings.TrimSpace(string(out)) != "taken" {
		err = &Failure{Host: h.o.Host, Why: "its shell answered otherwise than was asked"}
	}
	if err != nil {
		var f *Failure
		if errors.As(err, &f) {
			f.Reached = true
		}
		return fmt.Errorf("copy assay to %s: %w", h.o.Host, err)
	}
	return nil
}

// binary is the path of an assay for the host's system.
func (h *Host) binary() (string, error) {
	if h.o.Binary != "" {
		return h.o.Binary, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	if h.system == runtime.GOOS+"/"+runtime.GOARCH {
		if runtime.GOOS == "linux" {
			return "/proc/self/exe", nil // there even when its file was replaced
		}
		return self, nil
	}
	folder := h.o.Binaries
	if folder == "" {
		folder = filepath.Dir(self)
	}
	end := "_" + strings.ReplaceAll(h.system, "/", "_")
	found, _ := filepath.Glob(filepath.Join(folder, "assay_*"+end))
	if exact := filepath.Join(folder, "assay_"+strings.TrimPrefix(h.o.Version, "v")+end); len(found) > 1 {
		for _, f := range found {
			if f == exact {
				return f, nil
			}
		}
		return "", fault.Hint(fmt.Errorf("%s is %s, and %s has %d assays for that", h.o.Host, h.system, folder,
			len(found)), "name one: --assay FILE")
	}
	if len(found) == 0 {
		return "", fault.Hint(fmt.Errorf("%s is %s, this machine is %s/%s, and %s has no assay for it", h.o.Host,
			h.system, runtime.GOOS, runtime.GOARCH, folder), needs(h.system))
	}
	return found[0], nil
}

// needs says how to get an assay for another system.
func needs(system string) string {
	name := strings.ReplaceAll(system, "/", "_")
	return fmt.Sprintf("take assay_VERSION_%s from the same release and name it by --assay FILE, or its folder by "+
		"$ASSAY_BINARIES", name)
}

// binary is what a program's file is.
type binary struct {
	sum    string
	size   int64
	system string // "": no program that is known
}

var (
	knownMu sync.Mutex
	known   = map[string]binary{} // by path, size and time
)

// identify reads a program's file: once, as long as it stays the same.
func identify(path string) (b binary, err error) {
	f, err := os.Open(path)
	if err != nil {
		return b, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return b, err
	}
	if !info.Mode().IsRegular() {
		return b, errors.New(path + " is no file")
	}
	key := fmt.Sprint(path, info.Size(), info.ModTime().Format(time.RFC3339Nano))
	knownMu.Lock()
	defer knownMu.Unlock()
	if b, ok := known[key]; ok {
		return b, nil
	}
	hash := sha256.New()
	if b.size, err = io.Copy(hash, f); err != nil {
		return b, err
	}
	b.sum, b.system = hex.EncodeToString(hash.Sum(nil)), programOf(f)
	known[key] = b
	return b, nil
}

// programOf is the GOOS/GOARCH that the file is a program for; "no system" where it is none that is known.
func programOf(f io.ReaderAt) string {
	if e, err := elf.NewFile(f); err == nil {
		switch e.Machine {
		case elf.EM_X86_64:
			return "linux/amd64"
		case elf.EM_AARCH64:
			return "linux/arm64"
		}
	}
	if m, err := macho.NewFile(f); err == nil {
		switch m.Cpu {
		case macho.CpuAmd64:
			return "darwin/amd64"
		case macho.CpuArm64:
			return "darwin/arm64"
		}
	}
	return "no system that assay knows"
}

package python

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// Header is what the first bytes of an executable say: what it can run as. What it runs as is asked of the process.
type Header struct {
	Format string   `json:"format"`         // ELF, Mach-O, Mach-O fat, script
	Arch   []string `json:"arch,omitempty"` // arm64, arm64e, x86_64, x86_64h, i386, aarch64, …; one per slice
}

// headerBytes is enough for 32 fat slices (8 + 32 × 32 bytes) and for any `#!` line that a kernel accepts.
const headerBytes = 4096

// maxSlices: the count of a fat file and the version of a Java class file share their place after 0xcafebabe. Java's
// versions start at 45, and no fat file comes near.
const maxSlices = 32

// readHeader reads at most 4 KiB of the file.
func readHeader(path string) (Header, []byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return Header{}, nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return Header{}, nil, err
	}
	if !st.Mode().IsRegular() {
		return Header{}, nil, fmt.Errorf("%s: not a regular file", path)
	}
	head := make([]byte, headerBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return Header{}, nil, err
	}
	h, err := ParseHeader(head[:n], st.Size())
	return h, head[:n], err
}

// ParseHeader reads the head of an executable of size bytes. An error says that it is none, or that it is cut short.
// Layouts: mach-o/loader.h and mach-o/fat.h of Apple's cctools, elf.h. debug/macho is not used: it does not know the
// 64-bit fat form and opens every slice.
func ParseHeader(head []byte, size int64) (Header, error) {
	if len(head) >= 2 && head[0] == '#' && head[1] == '!' {
		return Header{Format: "script"}, nil
	}
	if len(head) < 20 {
		return Header{}, fmt.Errorf("no executable: %d bytes are too few for a header", len(head))
	}
	le, be := binary.LittleEndian, binary.BigEndian
	switch magic := be.Uint32(head); magic {
	case 0x7f454c46: // ELF
		var order binary.ByteOrder = le
		switch head[5] {
		case 1:
		case 2:
			order = be
		default:
			return Header{}, fmt.Errorf("ELF header: byte order %d", head[5])
		}
		return Header{Format: "ELF", Arch: []string{elfMachine(order.Uint16(head[18:]))}}, nil
	case 0xcffaedfe, 0xcefaedfe: // MH_MAGIC_64 and MH_MAGIC, little-endian
		return Header{Format: "Mach-O", Arch: []string{machCPU(le.Uint32(head[4:]), le.Uint32(head[8:]))}}, nil
	case 0xfeedfacf, 0xfeedface: // big-endian: PowerPC
		return Header{Format: "Mach-O", Arch: []string{machCPU(be.Uint32(head[4:]), be.Uint32(head[8:]))}}, nil
	case 0xcafebabe, 0xcafebabf:
		return parseFat(head, size, magic == 0xcafebabf)
	default:
		return Header{}, fmt.Errorf("no executable: it starts with %#08x", magic)
	}
}

func parseFat(head []byte, size int64, wide bool) (Header, error) {
	be := binary.BigEndian
	entry := 20
	if wide {
		entry = 32
	}
	n := be.Uint32(head[4:])
	if n == 0 || n > maxSlices {
		return Header{}, fmt.Errorf("fat header: %d slices (a Java class file starts with the same bytes)", n)
	}
	h := Header{Format: "Mach-O fat"}
	for i := range int(n) {
		at := 8 + i*entry
		if at+entry > len(head) {
			return Header{}, fmt.Errorf("fat header: cut short in slice %d of %d", i+1, n)
		}
		offset, length := uint64(be.Uint32(head[at+8:])), uint64(be.Uint32(head[at+12:]))
		if wide {
			offset, length = be.Uint64(head[at+8:]), be.Uint64(head[at+16:])
		}
		if offset+length < offset || offset+length > uint64(size) {
			return Header{}, fmt.Errorf("fat header: slice %d ends at %d, past the end of the file (%d bytes)", i+1,
				offset+length, size)
		}
		h.Arch = append(h.Arch, machCPU(be.Uint32(head[at:]), be.Uint32(head[at+4:])))
	}
	return h, nil
}

// machCPU names a cputype and subtype (mach/machine.h). The subtype's high byte holds capability bits, not the model.
func machCPU(cpu, sub uint32) string {
	sub &= 0x00ffffff
	switch cpu {
	case 0x0100000c:
		if sub == 2 {
			return "arm64e"
		}
		return "arm64"
	case 0x01000007:
		if sub == 8 {
			return "x86_64h"
		}
		return "x86_64"
	case 0x0000000c:
		return "arm"
	case 0x00000007:
		return "i386"
	case 0x00000012:
		return "ppc"
	case 0x01000012:
		return "ppc64"
	}
	return fmt.Sprintf("cpu %#x", cpu)
}

// elfMachine names e_machine as uname -m does.
func elfMachine(m uint16) string {
	switch m {
	case 3:
		return "i386"
	case 20:
		return "ppc"
	case 21:
		return "ppc64"
	case 22:
		return "s390x"
	case 40:
		return "arm"
	case 62:
		return "x86_64"
	case 183:
		return "aarch64"
	case 243:
		return "riscv"
	case 258:
		return "loongarch"
	}
	return fmt.Sprintf("machine %d", m)
}

// sameArch folds the names of one instruction set: arm64, arm64e and aarch64; x86_64, x86_64h and amd64.
func sameArch(a, b string) bool { return foldArch(a) == foldArch(b) }

func foldArch(a string) string {
	switch a {
	case "arm64", "arm64e", "aarch64":
		return "arm64"
	case "x86_64", "x86_64h", "amd64", "AMD64":
		return "x86_64"
	case "i386", "i486", "i586", "i686":
		return "i386"
	case "ppc64", "ppc64le":
		return "ppc64"
	case "riscv", "riscv64":
		return "riscv"
	case "arm", "armv6l", "armv7l":
		return "arm"
	}
	return a
}

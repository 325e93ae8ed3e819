package python

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The macho-*.head.bin files are the first 4096 bytes of programs in wheels of the package index: cmake 4.4.4
// (macosx_10_10_universal2, cmake/data/bin/cmake) and ruff 0.17.5 (macosx_11_0_arm64, macosx_10_12_x86_64,
// scripts/ruff).
func head(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	machArm64 = "macho-arm64-ruff-0.17.5.head.bin"
	machIntel = "macho-x86_64-ruff-0.17.5.head.bin"
	machFat   = "macho-universal2-cmake-4.4.4.head.bin"
	fatSize   = 0xdc0000 + 0xbb27f0 // where its second slice ends
)

func elfHead(order binary.ByteOrder, data byte, machine uint16) []byte {
	b := make([]byte, 64)
	copy(b, "\x7fELF\x02")
	b[5] = data
	order.PutUint16(b[18:], machine)
	return b
}

// fatHead makes a fat header of slices at 0x1000 with 16 bytes each.
func fatHead(n uint32, wide bool) []byte {
	magic, entry := uint32(0xcafebabe), 20
	if wide {
		magic, entry = 0xcafebabf, 32
	}
	b := make([]byte, 8+int(min(n, 40))*entry)
	be := binary.BigEndian
	be.PutUint32(b, magic)
	be.PutUint32(b[4:], n)
	for i := range int(min(n, 40)) {
		at := b[8+i*entry:]
		be.PutUint32(at, 0x0100000c)
		if wide {
			be.PutUint64(at[8:], 0x1000)
			be.PutUint64(at[16:], 16)
		} else {
			be.PutUint32(at[8:], 0x1000)
			be.PutUint32(at[12:], 16)
		}
	}
	return b
}

func TestParseHeader(t *testing.T) {
	for _, c := range []struct {
		name   string
		head   []byte
		size   int64
		format string
		arch   []string
		err    string
	}{
		{"arm64", head(t, machArm64), 4096, "Mach-O", []string{"arm64"}, ""},
		{"x86_64 with a capability bit", head(t, machIntel), 4096, "Mach-O", []string{"x86_64"}, ""},
		{"universal2", head(t, machFat), fatSize, "Mach-O fat", []string{"x86_64", "arm64"}, ""},
		{"universal2 cut short", head(t, machFat), 4096, "", nil, "past the end"},
		{"fat64", fatHead(1, true), 1 << 20, "Mach-O fat", []string{"arm64"}, ""},
		{"32 slices", fatHead(32, true), 1 << 20, "Mach-O fat", slices.Repeat([]string{"arm64"}, 32), ""},
		{"33 slices", fatHead(33, false), 1 << 20, "", nil, "33 slices"},
		{"no slice", fatHead(0, false)[:8:8], 1 << 20, "", nil, "too few"},
		{"Java 17", append([]byte{0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 61}, make([]byte, 40)...), 1 << 20, "", nil, "Java"},
		{"slice that overflows", overflowing(), 1 << 20, "", nil, "past the end"},
		{"Linux on Intel", elfHead(binary.LittleEndian, 1, 62), 64, "ELF", []string{"x86_64"}, ""},
		{"Linux on ARM", elfHead(binary.LittleEndian, 1, 183), 64, "ELF", []string{"aarch64"}, ""},
		{"big-endian", elfHead(binary.BigEndian, 2, 22), 64, "ELF", []string{"s390x"}, ""},
		{"ELF of no order", elfHead(binary.LittleEndian, 9, 62), 64, "", nil, "byte order"},
		{"script", []byte("#!/bin/sh\n"), 10, "script", nil, ""},
		{"text", []byte("import torch\nprint(torch)\n"), 26, "", nil, "no executable"},
		{"nothing", nil, 0, "", nil, "too few"},
	} {
		h, err := ParseHeader(c.head, c.size)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %+v, %v", c.name, h, err)
			}
		} else if err != nil || h.Format != c.format || !slices.Equal(h.Arch, c.arch) {
			t.Errorf("%s: %+v, %v", c.name, h, err)
		}
	}
}

func overflowing() []byte {
	b := fatHead(1, true)
	binary.BigEndian.PutUint64(b[16:], 1<<63)
	binary.BigEndian.PutUint64(b[24:], 1<<63)
	return b
}

func FuzzParseHeader(f *testing.F) {
	for _, name := range []string{machArm64, machIntel, machFat} {
		f.Add(head(f, name), int64(fatSize))
	}
	f.Add(elfHead(binary.LittleEndian, 1, 62), int64(64))
	f.Add(fatHead(2, true), int64(1<<20))
	f.Add([]byte("#!/usr/bin/env python3\n"), int64(30))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		h, err := ParseHeader(b, size)
		if err != nil {
			return
		}
		if h.Format == "" || h.Format != "script" && (len(h.Arch) == 0 || len(h.Arch) > maxSlices) {
			t.Errorf("%+v", h)
		}
	})
}

package weights

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/pickle"
)

// torchFormat is what torch.save writes: since PyTorch 1.6 a zip file, before that pickles and storages after one
// another.
var torchFormat = format{name: "torch", is: isTorch, open: openTorch}

var torchEndings = []string{".pt", ".pth", ".bin", ".ckpt", ".th", ".tar", ".pkl", ".pickle", ".ptl", ".pt2",
	".jit"}

// legacyMagic is the number that a file before 1.6 begins with (torch/serialization.py, MAGIC_NUMBER).
const legacyMagic = "0x1950a86a20f9469cfc6c"

func isTorch(head []byte, name string) bool {
	named := slices.ContainsFunc(torchEndings, func(end string) bool { return strings.HasSuffix(name, end) })
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return named || bytes.Contains(head, []byte("/data.pkl")) || bytes.Contains(head, []byte("/constants.pkl"))
	case isLegacy(head):
		return true
	case isTar(head):
		return named
	}
	return named && len(head) > 1 && head[0] == 0x80 && head[1] <= 5
}

func isTar(head []byte) bool {
	return len(head) >= 262 && string(head[257:262]) == "ustar" ||
		bytes.HasPrefix(head, []byte("sys_info\x00")) || bytes.HasPrefix(head, []byte("storages\x00"))
}

func isLegacy(head []byte) bool {
	magic := []byte("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.")
	return bytes.Contains(head[:min(len(head), 64)], magic) ||
		bytes.HasPrefix(head, []byte("L119547037146038801333356L\n"))
}

func openTorch(f *os.File, size int64) (*File, error) {
	head := make([]byte, 512)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	var file *File
	switch head = head[:n]; {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		file, err = readTorchZip(f, size, stem(f.Name()))
	case isTar(head):
		return nil, fault.Hint(errors.New("it is of the tar form that PyTorch wrote before 0.1.10, which is not read"),
			"load it once with torch.load(weights_only=False) where you trust it, and save it again")
	case isLegacy(head):
		file, err = readTorchLegacy(f, size, stem(f.Name()))
	default:
		file, err = readPickle(f, stem(f.Name()))
	}
	if err != nil {
		return nil, err
	}
	file.Closers = append(file.Closers, f)
	return file, nil
}

// stem of a file's name: without folder and ending.
func stem(name string) string {
	name = name[strings.LastIndexByte(name, os.PathSeparator)+1:]
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		name = name[:dot]
	}
	return name
}

// readPickle reads a file that is one pickle: of arrays, for tensors would lie beside it.
func readPickle(f io.ReaderAt, name string) (*File, error) {
	d := pickle.NewDecoder(io.NewSectionReader(f, 0, math.MaxInt64), 0,
		pickle.Options{Lookup: torchNames, Classes: true})
	root, err := d.Load()
	if err != nil {
		return nil, err
	}
	return nameTensors(root, name, &File{Format: "pickle", Meta: map[string]string{}})
}

// readTorchZip reads what torch.save writes since 1.6: a folder of any name, in it data.pkl, and data/N for each
// storage. A torch.jit.save has code/ beside them.
func readTorchZip(f io.ReaderAt, size int64, name string) (*File, error) {
	archive, err := zip.NewReader(f, size)
	if err != nil {
		return nil, fault.Hint(fmt.Errorf("its list of entries cannot be read: %w", err),
			"the file is cut off or damaged: fetch it again")
	}
	entries, folder, err := zipEntries(archive, size)
	if err != nil {
		return nil, err
	}
	file := &File{Format: "torch", Meta: readComment(archive.Comment)}
	file.Meta["folder"] = folder
	main := entries["data.pkl"]
	if main == nil {
		switch {
		case entries["model.json"] != nil:
			return nil, errors.New("it is a TorchScript archive of PyTorch before 1.4 (model.json), which is not read")
		case entries["models/model.json"] != nil || entries["archive_format"] != nil:
			return nil, errors.New("it is an archive of torch.export (.pt2), which is not read")
		case entries["constants.pkl"] != nil:
			return nil, errors.New("it is a TorchScript archive without data.pkl: it holds code and no parameters")
		case entries[".data/package"] != nil || entries[".data/extern_modules"] != nil:
			return nil, errors.New("it is an archive of torch.package, which is not read")
		}
		return nil, fault.Hint(errors.New("it is a zip file without FOLDER/data.pkl, which torch.save writes"),
			"`unzip -l` lists what it holds")
	}
	big := false
	for _, word := range []string{"byteorder", "version", ".format_version"} {
		if entry := entries[word]; entry != nil {
			text, err := smallEntry(entry)
			if err != nil {
				return nil, err
			}
			file.Meta[strings.TrimPrefix(word, ".")] = text
			if word == "byteorder" && text != "little" && text != "big" {
				return nil, fmt.Errorf("its record byteorder says %q, which is neither little nor big", text)
			}
			big = big || word == "byteorder" && text == "big"
		}
	}
	for entry := range entries {
		if strings.HasPrefix(entry, "code/") || entry == "constants.pkl" {
			file.Meta["torchscript"] = "yes"
		}
	}
	if file.Meta["torchscript"] != "" {
		file.Notes = append(file.Notes, "a TorchScript archive: its parameters are read, its code and constants are not")
	}
	records := map[string]*torchRecord{}
	load := func(id pickle.Value) (pickle.Value, error) {
		return zipStorage(id, func(key string) (*torchRecord, error) {
			if have := records[key]; have != nil {
				return have, nil
			}
			entry := entries["data/"+key]
			if entry == nil {
				return nil, fmt.Errorf("the storage %q is nowhere in the file", key[:min(len(key), 100)])
			}
			made, err := zipRecord(f, entry, key, big)
			records[key] = made
			return made, err
		})
	}
	from, err := main.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", main.Name, err)
	}
	defer from.Close()
	root, err := pickle.NewDecoder(from, 0, pickle.Options{Lookup: torchNames, Persistent: load, Classes: true}).Load()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", main.Name, err)
	}
	return nameTensors(root, name, file)
}

// maxEntries of a zip file; a model of a thousand layers has some thousands with its optimizer's.
const maxEntries = 1 << 18

// zipEntries lists what lies in the folder that the first entry names, by names without it. Entries that overlap, stand
// twice, or lead out of the folder are refused.
func zipEntries(archive *zip.Reader, size int64) (map[string]*zip.File, string, error) {
	if len(archive.File) == 0 {
		return nil, "", errors.New("it is a zip file without entries")
	}
	if len(archive.File) > maxEntries {
		return nil, "", fmt.Errorf("it has %d entries; %d at most are read", len(archive.File), maxEntries)
	}
	folder, _, _ := strings.Cut(archive.File[0].Name, "/")
	entries := map[string]*zip.File{}
	type span struct {
		name       string
		begin, end int64
	}
	spans := make([]span, 0, len(archive.File))
	for _, entry := range archive.File {
		short := entry.Name[:min(len(entry.Name), 200)]
		if strings.HasPrefix(entry.Name, "/") || strings.Contains(entry.Name, "\\") ||
			slices.Contains(strings.Split(entry.Name, "/"), "..") {
			return nil, "", fmt.Errorf("its entry %q leads out of it: refused", short)
		}
		inside, found := strings.CutPrefix(entry.Name, folder+"/")
		if !found {
			continue // torch looks into one folder only
		}
		if entries[inside] != nil {
			return nil, "", fmt.Errorf("it has two entries %q: refused", short)
		}
		entries[inside] = entry
		begin, err := entry.DataOffset()
		if err != nil {
			return nil, "", fmt.Errorf("its entry %q: %w", short, err)
		}
		length := int64(entry.CompressedSize64)
		if length < 0 || length > size-begin {
			return nil, "", fmt.Errorf("its entry %q has %d bytes from byte %d of a file of %d", short,
				entry.CompressedSize64, begin, size)
		}
		if entry.Method == zip.Store && entry.UncompressedSize64 != entry.CompressedSize64 {
			return nil, "", fmt.Errorf("its entry %q is stored, and says two sizes", short)
		}
		// Deflate makes at most 1032 bytes of one (RFC 1951: 258 bytes in 2 bits)
		if entry.UncompressedSize64/1032 > entry.CompressedSize64 {
			return nil, "", fmt.Errorf("its entry %q says that it is %d bytes in %d: refused", short,
				entry.UncompressedSize64, entry.CompressedSize64)
		}
		// 30 bytes and the name stand before the content of each
		spans = append(spans, span{short, begin - 30 - int64(len(entry.Name)), begin + length})
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.begin, b.begin) })
	for i := 1; i < len(spans); i++ {
		if spans[i].begin < spans[i-1].end {
			return nil, "", fmt.Errorf("its entries %q and %q overlap: refused", spans[i-1].name, spans[i].name)
		}
	}
	return entries, folder, nil
}

func smallEntry(entry *zip.File) (string, error) {
	from, err := entry.Open()
	if err != nil {
		return "", fmt.Errorf("%s: %w", entry.Name, err)
	}
	defer from.Close()
	text, err := io.ReadAll(io.LimitReader(from, 100))
	if err != nil {
		return "", fmt.Errorf("%s: %w", entry.Name, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// zipStorage is what ("storage", class, key, location, elements) stands for.
func zipStorage(id pickle.Value, find func(key string) (*torchRecord, error)) (pickle.Value, error) {
	made, key, err := describedStorage(id, 5)
	if err != nil || made.meta {
		return made, err
	}
	if made.record, err = find(key); err != nil {
		return nil, err
	}
	if have := made.record.size; made.bytes() > have {
		return nil, fmt.Errorf("the storage %q has %d bytes, and its record %d", key, made.bytes(), have)
	}
	return made, nil
}

// describedStorage reads a persistent id of so many parts.
func describedStorage(id pickle.Value, parts int) (*torchStorage, string, error) {
	tuple, ok := id.(*pickle.Tuple)
	if !ok || len(tuple.Items) == 0 || pickleText(tuple.Items[0]) != "storage" {
		return nil, "", errors.New("it asks for a value outside of it that is no storage: refused")
	}
	if len(tuple.Items) != parts {
		return nil, "", fmt.Errorf("a storage is said in %d parts where it has %d", len(tuple.Items), parts)
	}
	class, ok := tuple.Items[1].(*storageClass)
	key, location := pickleText(tuple.Items[2]), pickleText(tuple.Items[3])
	elements, counted := tuple.Items[4].(int64)
	if !ok || !counted || key == "" {
		return nil, "", errors.New("a storage is not said as torch says it: class, key, location, elements")
	}
	if elements < 0 || elements > math.MaxInt64/class.size {
		return nil, "", fmt.Errorf("a storage has %d elements", elements)
	}
	return &torchStorage{torchType: class.torchType, elements: elements, meta: location == "meta"}, key, nil
}

// pickleText of a text, or of the bytes in which Python 2 had it.
func pickleText(v pickle.Value) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// zipRecord is the record of an entry: read where it lies, or as a stream where it is compressed.
func zipRecord(f io.ReaderAt, entry *zip.File, key string, big bool) (*torchRecord, error) {
	offset, err := entry.DataOffset()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", entry.Name, err)
	}
	made := &torchRecord{key: key, size: int64(entry.UncompressedSize64), known: true, big: big, at: f, offset: offset}
	switch {
	case entry.UncompressedSize64 > math.MaxInt64:
		return nil, fmt.Errorf("%s: it has %d bytes", entry.Name, entry.UncompressedSize64)
	case entry.Method == zip.Deflate:
		made.at, made.stream = nil, entry.Open
	case entry.Method != zip.Store:
		return nil, fmt.Errorf("%s: it is compressed in the way %d; known are 0 and 8", entry.Name, entry.Method)
	}
	made.where = fmt.Sprintf("%s at byte %d", entry.Name, offset)
	return made, nil
}

// readTorchLegacy reads what torch.save wrote before 1.6: a magic number, a version, what the machine was, the object,
// the keys of its storages, and each of those with its length before it.
func readTorchLegacy(f io.ReaderAt, size int64, name string) (*File, error) {
	file := &File{Format: "torch (before 1.6)", Meta: map[string]string{}}
	records, storages := map[string]*torchRecord{}, []*torchStorage{}
	load := func(id pickle.Value) (pickle.Value, error) {
		if tuple, ok := id.(*pickle.Tuple); ok && len(tuple.Items) > 1 && pickleText(tuple.Items[0]) == "module" {
			return tuple.Items[1], nil // a class with its source, which is not looked at
		}
		made, err := legacyStorage(id, records)
		if err == nil {
			storages = append(storages, made)
		}
		return made, err
	}
	d := pickle.NewDecoder(io.NewSectionReader(f, 0, size), 0,
		pickle.Options{Lookup: torchNames, Persistent: load, Classes: true})
	magic, err := d.Load()
	if err != nil {
		return nil, err
	}
	if n, ok := magic.(*big.Int); !ok || fmt.Sprintf("%#x", n) != legacyMagic {
		return nil, errors.New("its magic number is not torch's")
	}
	version, err := d.Load()
	if err != nil {
		return nil, err
	}
	if version != int64(1001) {
		return nil, errors.New("its version is not 1001, the only one of its kind")
	}
	if _, err := d.Load(); err != nil { // what the machine was; storages are little-endian whatever it says
		return nil, err
	}
	root, err := d.Load()
	if err != nil {
		return nil, err
	}
	keys, err := d.Load()
	if err != nil {
		return nil, err
	}
	list, ok := keys.(*pickle.List)
	if !ok {
		return nil, errors.New("its list of storages is none")
	}
	if err := placeRecords(f, size, d.Offset(), list.Items, records, storages); err != nil {
		return nil, err
	}
	return nameTensors(root, name, file)
}

// legacyStorage is what ("storage", class, key, location, elements, view) stands for; where its record lies is found
// out behind the pickle.
func legacyStorage(id pickle.Value, records map[string]*torchRecord) (*torchStorage, error) {
	made, key, err := describedStorage(id, 6)
	if err != nil {
		return nil, err
	}
	if records[key] == nil {
		records[key] = &torchRecord{key: key, size: made.bytes()}
	}
	made.record = records[key]
	if made.bytes() != made.record.size {
		return nil, fmt.Errorf("the storage %q is said to have %d bytes, and %d", key, made.record.size, made.bytes())
	}
	whole := made.elements
	switch part := id.(*pickle.Tuple).Items[5].(type) {
	case nil:
	case *pickle.Tuple: // (key, offset, elements) of a part that stands for itself
		if len(part.Items) != 3 {
			return nil, errors.New("a part of a storage is not said as torch says it")
		}
		offset, ok := part.Items[1].(int64)
		elements, also := part.Items[2].(int64)
		if !ok || !also || offset < 0 || elements < 0 || offset > whole || elements > whole-offset {
			return nil, fmt.Errorf("a part of the storage %q lies outside of it", key)
		}
		made.start, made.elements = offset*made.size, elements
	default:
		return nil, errors.New("a part of a storage is not said as torch says it")
	}
	return made, nil
}

// placeRecords finds where storages lie that stand after one another from this byte on.
func placeRecords(f io.ReaderAt, size, at int64, keys []pickle.Value, records map[string]*torchRecord,
	storages []*torchStorage) error {
	units := map[*torchRecord]int64{} // what its length is counted in
	for _, s := range storages {
		units[s.record] = s.size
	}
	for _, key := range keys {
		record := records[pickleText(key)]
		if record == nil || record.known {
			return errors.New("its list of storages names one twice, or one that no tensor has")
		}
		var length [8]byte
		if at > size-8 {
			return cutOff(size, at+8)
		}
		if _, err := f.ReadAt(length[:], at); err != nil {
			return err
		}
		elements := int64(binary.LittleEndian.Uint64(length[:]))
		if elements < 0 || elements != record.size/units[record] {
			return fmt.Errorf("the storage %q has %d elements at byte %d, and %d in the pickle", record.key, elements,
				at, record.size/units[record])
		}
		at += 8
		if record.size > size-at {
			return cutOff(size, at+record.size)
		}
		record.known, record.at, record.offset = true, f, at
		record.where = fmt.Sprintf("byte %d", at)
		at += record.size
	}
	for _, s := range storages {
		if !s.record.known && !s.meta {
			return fmt.Errorf("the storage %q is nowhere in the file", s.record.key)
		}
	}
	return nil
}

func cutOff(have, want int64) error {
	return fault.Hint(fmt.Errorf("it has %d bytes where its storages need at least %d", have, want),
		"the file is cut off: fetch it again")
}

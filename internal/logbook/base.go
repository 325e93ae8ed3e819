package logbook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"assay/internal/evidence"
	"assay/internal/fault"
)

// A document of evidence is kept in columns (columns.go), compressed against a base: the columns of an earlier document
// of the same kind and title. A base is a copy that belongs to no record. It stands in the file twice, since others
// lean on it, and no more than so many documents lean on one, so that what one damaged place can cost, and what is to
// be done when the record that it was taken from is forgotten, has a bound.
const (
	mostLeaning = 256
	mostBase    = 256 << 10 // bytes of it, unpacked
	leastApart  = 4 << 10   // bytes of a document that is worth it
	mostApart   = 32 << 20  // and that leaves memory for it
)

// dictionary packs and unpacks against a base. Both halves are safe for several goroutines.
type dictionary struct {
	base int64
	pack func() *zstd.Encoder
	un   *zstd.Decoder
}

// dictionaries are those used last, by the sum of the base and its number, which zstd has in every frame. What is in it
// was held to its sum, whichever file it came from.
var dictionaries = struct {
	sync.Mutex
	of    map[string]*dictionary
	order []string
}{of: map[string]*dictionary{}}

const mostDictionaries = 12

func newDictionary(base int64, sum, content []byte) (*dictionary, error) {
	key := fmt.Sprintf("%d %x", base, sum)
	dictionaries.Lock()
	defer dictionaries.Unlock()
	if d := dictionaries.of[key]; d != nil {
		return d, nil
	}
	if content == nil {
		return nil, nil
	}
	un, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(2*MaxContent), zstd.WithDecoderConcurrency(2),
		zstd.WithDecoderDictRaw(uint32(base), content))
	if err != nil {
		return nil, err
	}
	d := &dictionary{base: base, un: un}
	d.pack = sync.OnceValue(func() *zstd.Encoder { // a reader has no need of it
		return must(zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault),
			zstd.WithEncoderDictRaw(uint32(base), content)))
	})
	if dictionaries.of[key] = d; len(dictionaries.order) == mostDictionaries {
		delete(dictionaries.of, dictionaries.order[0])
		dictionaries.order = dictionaries.order[1:]
	}
	dictionaries.order = append(dictionaries.order, key)
	return d, nil
}

var errBase = errors.New("the base that it leans on is damaged, and so is its copy")

// dictionaryOf reads a base, or where that is damaged its copy.
func dictionaryOf(ctx context.Context, q queryer, base int64) (*dictionary, error) {
	var sum []byte
	if base < 1 || base > math.MaxInt32 {
		return nil, errBase
	}
	if err := q.QueryRowContext(ctx, "SELECT sum FROM base WHERE base = ?", base).Scan(&sum); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			err = errBase
		}
		return nil, err
	}
	if d, err := newDictionary(base, sum, nil); d != nil || err != nil {
		return d, err
	}
	for _, table := range []string{"base", "base_copy"} {
		var data []byte
		err := q.QueryRowContext(ctx, fmt.Sprintf("SELECT CASE WHEN length(data) <= %d THEN data END FROM %s WHERE base = ?",
			2*mostBase, table), base).Scan(&data)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			continue
		}
		if content := unpackBase(data, sum); content != nil {
			return newDictionary(base, sum, content)
		}
	}
	return nil, errBase
}

// unpackBase gives what a base is; nil where it is not what was kept.
func unpackBase(data, sum []byte) []byte {
	var header zstd.Header
	if err := header.Decode(data); err != nil || !header.HasFCS || header.FrameContentSize > mostBase {
		return nil
	}
	content, err := unpacker.DecodeAll(data, make([]byte, 0, header.FrameContentSize))
	if is := sha256.Sum256(content); err != nil || len(content) > mostBase || !bytes.Equal(is[:], sum) {
		return nil
	}
	return content
}

// parts are a document on its way into the file.
type parts struct {
	doc        []byte
	head, tail []byte // nil: not taken apart
	kind       string
	title      any
}

// apart takes a document apart where that is worth it, and makes sure that it comes back.
func apart(doc []byte) *parts {
	all := &parts{doc: doc}
	if len(doc) < leastApart || len(doc) > mostApart || !bytes.Contains(doc[:min(len(doc), 200)],
		[]byte(`"`+evidence.Schema+`"`)) {
		return all
	}
	head, tail, ok := takeApart(doc)
	if !ok {
		return all
	}
	again, err := putTogether(slices.Concat(head, tail), len(doc))
	if err != nil || !bytes.Equal(again, doc) {
		return all
	}
	all.head, all.tail = head, tail
	return all
}

// of says what document it is.
func (p *parts) of(of *projection) *parts {
	p.kind, p.title = of.kind, of.record[3]
	return p
}

func (p *parts) family() []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "assay.family/1\x00%s\x00%v", p.kind, p.title))
	return sum[:8]
}

// frames packs the parts as two frames of zstd: what numbers are left with has no likeness to text.
func (p *parts) frames(e *zstd.Encoder) []byte { return e.EncodeAll(p.tail, e.EncodeAll(p.head, nil)) }

// leanest chooses against what the document of an identifier is kept: a base of its family, which is made from it where
// it is the second one, else the newest of another's. It gives what goes into content.
func (p *parts) leanest(w *inserter, id string) (base any, data []byte, err error) {
	if p.head == nil {
		return nil, packer.EncodeAll(p.doc, nil), nil
	}
	find := func(query string, args ...any) (base int64, err error) {
		if err = w.query(&base, query, args...); errors.Is(err, sql.ErrNoRows) {
			return 0, nil
		}
		return base, err
	}
	family := p.family()
	number, err := find("SELECT base FROM base WHERE family = ? ORDER BY base DESC LIMIT 1", family)
	if err != nil {
		return nil, nil, err
	}
	leaning := int64(0)
	if number > 0 {
		if leaning, err = find("SELECT count(*) FROM content WHERE base = ?", number); err != nil {
			return nil, nil, err
		}
	}
	var before int64
	if number == 0 {
		if before, err = find("SELECT count(*) FROM (SELECT 1 FROM record WHERE kind = ? AND title IS ? AND id <> ? LIMIT 1)",
			p.kind, p.title, id); err != nil {
			return nil, nil, err
		}
		if before == 0 { // who knows whether there will be another: one of others does for it, if there is any
			if number, err = find(`SELECT base FROM base b WHERE (SELECT count(*) FROM content c WHERE c.base = b.base) < ?
				ORDER BY base DESC LIMIT 1`, mostLeaning); err != nil {
				return nil, nil, err
			}
			if number == 0 {
				return int64(0), p.frames(packer), nil
			}
		}
	}
	var d *dictionary
	if number > 0 && leaning < mostLeaning {
		if d, err = dictionaryOf(w.ctx, w.tx, number); err != nil && !errors.Is(err, errBase) {
			return nil, nil, err
		}
	}
	if d == nil { // none yet, full, or damaged
		if d, err = p.newBase(w, id); err != nil {
			return nil, nil, err
		}
	}
	return d.base, p.frames(d.pack()), nil
}

// newBase keeps the document's columns as a base.
func (p *parts) newBase(w *inserter, id string) (*dictionary, error) {
	content := slices.Concat(p.head, p.tail)
	content = content[:min(len(content), mostBase)]
	sum := sha256.Sum256(content)
	data := bases.EncodeAll(content, nil)
	res, err := w.exec(`INSERT INTO base(base, family, origin, sum, data)
		SELECT 1 + max(coalesce((SELECT max(base) FROM base), 0), coalesce((SELECT max(base) FROM content), 0)), ?, ?, ?, ?`,
		p.family(), id, sum[:], data)
	if err != nil {
		return nil, err
	}
	base, err := res.LastInsertId()
	if err != nil {
		return nil, err
	}
	if _, err := w.exec("INSERT INTO base_copy(base, data) VALUES(?,?)", base, data); err != nil {
		return nil, err
	}
	return newDictionary(base, sum[:], content)
}

var bases = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
	zstd.WithEncoderConcurrency(1)))

// stored is a row of content.
type stored struct {
	id   string
	size int64
	base *int64
	data []byte
}

// content reads a document and checks it against its identifier.
func content(ctx context.Context, q queryer, id string) ([]byte, error) {
	s := stored{id: id}
	if err := q.QueryRowContext(ctx, "SELECT size, base, data FROM content WHERE id = ?", id).Scan(&s.size, &s.base,
		&s.data); err != nil {
		return nil, fmt.Errorf("read record %s: %w", short(id), err)
	}
	d, err := s.dictionary(ctx, q)
	if err != nil {
		return nil, err
	}
	return s.document(d)
}

// dictionary is what the document is to be unpacked with; nil: nothing.
func (s *stored) dictionary(ctx context.Context, q queryer) (*dictionary, error) {
	if s.base == nil || *s.base == 0 {
		return nil, nil
	}
	d, err := dictionaryOf(ctx, q, *s.base)
	if errors.Is(err, errBase) {
		err = fault.Hint(err, "assay log verify tells what else is damaged")
	}
	if err != nil {
		return nil, fmt.Errorf("read record %s: %w", short(s.id), err)
	}
	return d, nil
}

// document unpacks and checks it.
func (s *stored) document(d *dictionary) ([]byte, error) {
	damaged := fault.Hint(fmt.Errorf("read record %s: the document is not what was kept: its SHA-256 differs",
		short(s.id)), "assay log verify tells what else is damaged")
	if s.size < 0 || s.size > MaxContent {
		return nil, damaged
	}
	doc, err := s.unpack(d)
	if err != nil || int64(len(doc)) != s.size || sumText(doc) != s.id {
		return nil, damaged
	}
	return doc, nil
}

func (s *stored) unpack(d *dictionary) ([]byte, error) {
	// The sizes that the frame and the row declare must agree before memory is given.
	var header zstd.Header
	if err := header.Decode(s.data); err != nil {
		return nil, err
	}
	if s.base == nil {
		if header.HasFCS && header.FrameContentSize != uint64(s.size) {
			return nil, errColumns
		}
		return unpacker.DecodeAll(s.data, make([]byte, 0, min(s.size, int64(len(s.data))*64)+1))
	}
	un := unpacker
	if d != nil {
		un = d.un
	}
	// a class for each number, its bits, and some bytes for each context
	most := 2*s.size + 1<<16
	if header.HasFCS && header.FrameContentSize > uint64(most) {
		return nil, errColumns
	}
	raw, err := un.DecodeAll(s.data, make([]byte, 0, min(most, int64(len(s.data))*16)+1))
	if err != nil || int64(len(raw)) > most {
		return nil, errColumns
	}
	return putTogether(raw, int(s.size))
}

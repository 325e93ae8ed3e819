-- A logbook keeps documents: the evidence of a run, or a record in the common form (assay.record/1). What stands in the tables
-- record, figure, fact, operator, finding and link is read out of the document and can be made again from it; chunk holds series of
-- points; ledger chains every document and chunk in the order in which they came. The views are what log query is for.

CREATE TABLE content (
  id   TEXT PRIMARY KEY, -- SHA-256 of the document, hexadecimal: the record's identifier
  size INTEGER NOT NULL, -- bytes of the document
  data BLOB NOT NULL     -- the document, zstd
);

CREATE TABLE record (
  record       INTEGER PRIMARY KEY, -- number in this logbook; another one gives another
  id           TEXT NOT NULL UNIQUE,
  kind         TEXT NOT NULL,       -- run, rehearsal, note, rejection, facts, or what a later room says
  at           TEXT NOT NULL,       -- UTC, sorts as text
  ended        TEXT,
  title        TEXT,                -- of a run: what was run
  name         TEXT,                -- of a run: its folder's name
  script       TEXT,
  command      TEXT,
  asked        TEXT,
  device       TEXT,
  device_name  TEXT,
  framework    TEXT,
  torch        TEXT,                -- release of the framework; of a rehearsal the one that the double stood for
  python       TEXT,
  system       TEXT,
  chip         TEXT,
  commit_id    TEXT,
  dirty        TEXT,
  batch        INTEGER,
  resolution   TEXT,                -- of one input, without the batch: 3×224×224
  peak_memory  REAL,                -- bytes
  peak_figure  TEXT,                -- which figure that is
  peak_basis   TEXT,
  fallback     TEXT,                -- PYTORCH_ENABLE_MPS_FALLBACK as it was set
  fallbacks    INTEGER,             -- operators that ran on the CPU for want of a kernel
  exit         INTEGER,
  signal       TEXT,
  complete     INTEGER,
  error        TEXT,
  data_print   TEXT,                -- fingerprint of the first dataset
  assay        TEXT
);
CREATE INDEX record_at ON record(at);
CREATE INDEX record_name ON record(name);

CREATE TABLE figure (
  record INTEGER NOT NULL, name TEXT NOT NULL, value REAL, unit TEXT NOT NULL, low REAL, high REAL, n INTEGER,
  basis TEXT, steps TEXT, note TEXT, missing TEXT
);
CREATE INDEX figure_record ON figure(record, name);
CREATE INDEX figure_name ON figure(name, value);

CREATE TABLE fact (record INTEGER NOT NULL, part TEXT NOT NULL, name TEXT NOT NULL, value TEXT, source TEXT, missing TEXT);
CREATE INDEX fact_record ON fact(record, part);

CREATE TABLE operator (
  record INTEGER NOT NULL, name TEXT NOT NULL, calls INTEGER NOT NULL, self_seconds REAL, total_seconds REAL, device_seconds REAL,
  state TEXT, basis TEXT NOT NULL
);
CREATE INDEX operator_record ON operator(record);

CREATE TABLE finding (record INTEGER NOT NULL, name TEXT NOT NULL, severity TEXT NOT NULL, text TEXT NOT NULL, place TEXT, hint TEXT, basis TEXT);
CREATE INDEX finding_record ON finding(record);

CREATE TABLE link (record INTEGER NOT NULL, about TEXT NOT NULL); -- identifier of the record that this one is about
CREATE INDEX link_record ON link(record);
CREATE INDEX link_about ON link(about);

CREATE TABLE chunk (
  chunk  INTEGER PRIMARY KEY,
  id     BLOB NOT NULL UNIQUE, -- SHA-256 of what follows
  owner  TEXT NOT NULL,        -- record that the points belong to
  name   TEXT NOT NULL,
  n      INTEGER NOT NULL,
  first  INTEGER NOT NULL,     -- step numbers
  last   INTEGER NOT NULL,
  data   BLOB NOT NULL         -- steps, times and values by columns; internal/logbook/series.go
);
CREATE INDEX chunk_owner ON chunk(owner, name, first);

CREATE TABLE ledger (
  entry INTEGER PRIMARY KEY,
  kind  TEXT NOT NULL, -- record, chunk
  ref   BLOB NOT NULL, -- SHA-256
  hash  BLOB NOT NULL  -- SHA-256 of the hash before it, kind and ref
);

CREATE VIEW records AS SELECT id, kind, at, title, name FROM record;
CREATE VIEW runs AS SELECT id, kind, name, at AS started, ended, script, command, asked, device, device_name, framework, torch, python, system, chip,
  commit_id, dirty, batch, resolution, peak_memory, peak_figure, peak_basis, fallback, fallbacks, exit, signal, complete, error, data_print, assay
  FROM record WHERE kind IN ('run', 'rehearsal');
CREATE VIEW figures AS SELECT r.id, r.kind, r.name AS run, f.name, f.value, f.unit, f.low, f.high, f.n, f.basis, f.steps, f.note, f.missing
  FROM figure f JOIN record r USING (record);
CREATE VIEW facts AS SELECT r.id, r.kind, f.part, f.name, f.value, f.source, f.missing FROM fact f JOIN record r USING (record);
CREATE VIEW operators AS SELECT r.id, r.name AS run, o.name, o.calls, o.self_seconds, o.total_seconds, o.device_seconds, o.state, o.basis
  FROM operator o JOIN record r USING (record);
CREATE VIEW findings AS SELECT r.id, r.name AS run, f.name, f.severity, f.text, f.place, f.hint, f.basis FROM finding f JOIN record r USING (record);
CREATE VIEW notes AS SELECT r.id, r.kind, r.at, r.title AS text, l.about FROM record r LEFT JOIN link l USING (record) WHERE r.kind IN ('note', 'rejection');
CREATE VIEW points AS SELECT c.owner AS id, c.name, e.value ->> 0 AS step, e.value ->> 1 AS at, e.value ->> 2 AS value
  FROM chunk c, json_each(points_json(c.n, c.data)) e;

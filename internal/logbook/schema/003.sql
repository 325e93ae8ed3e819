-- reproject
-- What repeats is kept once. A document is kept as what it has new against a base, a document like it (internal/logbook/base.go). Of figures,
-- facts, operators and findings the words stand in forms, which all records share; facts, in sets. The series of a run are read out of its
-- document when they are asked for; chunk has those that were appended.

ALTER TABLE content ADD COLUMN base INTEGER; -- NULL: data is the document, zstd; 0: in columns (columns.go); else in columns, against that base
CREATE INDEX content_base ON content(base) WHERE base > 0;

CREATE TABLE base (
  base   INTEGER PRIMARY KEY,
  family BLOB NOT NULL, -- of which documents; SHA-256 of kind and title, the first bytes
  origin TEXT NOT NULL, -- the document that it was taken from: where that is forgotten, so is the base
  sum    BLOB NOT NULL, -- SHA-256 of what it is unpacked
  data   BLOB NOT NULL  -- columns, zstd
);
CREATE INDEX base_family ON base(family, base);
CREATE TABLE base_copy (base INTEGER PRIMARY KEY, data BLOB NOT NULL); -- the same once more: many documents lean on it

DROP VIEW figures;
DROP VIEW facts;
DROP VIEW operators;
DROP VIEW findings;
DROP VIEW points;
DROP TABLE figure;
DROP TABLE fact;
DROP TABLE operator;
DROP TABLE finding;

CREATE INDEX record_title ON record(title, at);
CREATE INDEX record_device ON record(device, at);
CREATE INDEX record_kind ON record(kind, at);
CREATE INDEX record_failed ON record(at) WHERE exit <> 0;
CREATE INDEX record_tally ON record(kind, device, exit, complete);

-- sum is over the words of a form, so that it is found again.
CREATE TABLE figure_form (
  form INTEGER PRIMARY KEY, sum BLOB NOT NULL UNIQUE,
  name TEXT NOT NULL, unit TEXT NOT NULL, basis TEXT, steps TEXT, note TEXT, missing TEXT
);
CREATE INDEX figure_form_name ON figure_form(name);
CREATE TABLE figure (
  record INTEGER NOT NULL, seq INTEGER NOT NULL, form INTEGER NOT NULL, value REAL, low REAL, high REAL, n INTEGER,
  told TEXT, -- numbers of the note, JSON: note is a format for printf then
  PRIMARY KEY(record, seq)
) WITHOUT ROWID;
CREATE INDEX figure_of_form ON figure(form, record);

CREATE TABLE fact_form (
  form INTEGER PRIMARY KEY, sum BLOB NOT NULL UNIQUE,
  part TEXT NOT NULL, name TEXT NOT NULL, source TEXT, missing TEXT
);
CREATE INDEX fact_form_name ON fact_form(name);
CREATE TABLE fact_set (form INTEGER PRIMARY KEY, sum BLOB NOT NULL UNIQUE); -- a few facts of one part
CREATE TABLE fact (
  fact_set INTEGER NOT NULL, seq INTEGER NOT NULL, form INTEGER NOT NULL, value TEXT, PRIMARY KEY(fact_set, seq)
) WITHOUT ROWID;
CREATE INDEX fact_of_form ON fact(form);
CREATE TABLE facts_of (
  record INTEGER NOT NULL, seq INTEGER NOT NULL, form INTEGER NOT NULL, PRIMARY KEY(record, seq)
) WITHOUT ROWID;
CREATE INDEX facts_of_form ON facts_of(form);

CREATE TABLE operator_form (
  form INTEGER PRIMARY KEY, sum BLOB NOT NULL UNIQUE,
  name TEXT NOT NULL, state TEXT, basis TEXT NOT NULL
);
CREATE INDEX operator_form_name ON operator_form(name);
CREATE TABLE operator (
  record INTEGER NOT NULL, seq INTEGER NOT NULL, form INTEGER NOT NULL, calls INTEGER NOT NULL, self REAL,
  total, -- the integer 0: what self is
  device REAL, PRIMARY KEY(record, seq)
) WITHOUT ROWID;

CREATE TABLE finding_form (
  form INTEGER PRIMARY KEY, sum BLOB NOT NULL UNIQUE,
  name TEXT NOT NULL, severity TEXT NOT NULL, text TEXT NOT NULL, place TEXT, hint TEXT, basis TEXT
);
CREATE TABLE finding (
  record INTEGER NOT NULL, seq INTEGER NOT NULL, form INTEGER NOT NULL, PRIMARY KEY(record, seq)
) WITHOUT ROWID;
CREATE INDEX finding_of_form ON finding(form);

CREATE TABLE series_form (form INTEGER PRIMARY KEY, sum BLOB NOT NULL UNIQUE, name TEXT NOT NULL);
CREATE TABLE series ( -- what points of its own a document has
  record INTEGER NOT NULL, seq INTEGER NOT NULL, form INTEGER NOT NULL, part INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY(record, seq)
) WITHOUT ROWID;

CREATE TABLE derived ( -- chunks that earlier assays kept beside the document in which the same points stand
  ref BLOB PRIMARY KEY, record INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX derived_record ON derived(record);

CREATE VIEW figures AS SELECT r.id, r.kind, r.name AS run, o.name, f.value, o.unit, f.low, f.high, f.n, o.basis, o.steps,
  CASE WHEN f.told IS NULL THEN o.note ELSE printf(o.note, f.told ->> 0, f.told ->> 1, f.told ->> 2, f.told ->> 3, f.told ->> 4, f.told ->> 5,
    f.told ->> 6, f.told ->> 7) END AS note, o.missing
  FROM figure f JOIN figure_form o USING (form) JOIN record r USING (record);
CREATE VIEW facts AS SELECT r.id, r.kind, o.part, o.name, f.value, o.source, o.missing
  FROM facts_of s JOIN fact f ON f.fact_set = s.form JOIN fact_form o ON o.form = f.form JOIN record r USING (record);
CREATE VIEW operators AS SELECT r.id, r.name AS run, o.name, p.calls, p.self AS self_seconds,
  CASE WHEN typeof(p.total) = 'integer' THEN p.self ELSE p.total END AS total_seconds, p.device AS device_seconds, o.state, o.basis
  FROM operator p JOIN operator_form o USING (form) JOIN record r USING (record);
CREATE VIEW findings AS SELECT r.id, r.name AS run, o.name, o.severity, o.text, o.place, o.hint, o.basis
  FROM finding f JOIN finding_form o USING (form) JOIN record r USING (record);
CREATE VIEW points AS SELECT r.id, o.name, e.value ->> 0 AS step, e.value ->> 1 AS at, e.value ->> 2 AS value
  FROM series s JOIN series_form o USING (form) JOIN record r USING (record) JOIN content c ON c.id = r.id LEFT JOIN base b ON b.base = c.base
    LEFT JOIN base_copy d ON d.base = c.base,
    json_each(run_points(c.id, o.name, s.part, c.size, c.data, c.base, b.sum, b.data, d.data)) e
  UNION ALL SELECT c.owner AS id, c.name, e.value ->> 0 AS step, e.value ->> 1 AS at, e.value ->> 2 AS value
  FROM chunk c, json_each(points_json(c.n, c.data)) e;

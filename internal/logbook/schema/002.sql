-- What was forgotten. A tombstone says that there was a record, when and why it went, and which one stands in its place; nothing in it can be
-- used to find out what was taken out, by trying values against a hash (internal/logbook/forget.go).

CREATE TABLE tombstone (
  event   TEXT NOT NULL,    -- random: one for each time that something was forgotten
  mark    TEXT NOT NULL,    -- which record it was: SHA-256 over its kind, time and name, or of a note that is gone over the whole
  kind    TEXT NOT NULL,
  at      TEXT NOT NULL,    -- when it was forgotten, UTC
  because TEXT NOT NULL,
  instead TEXT NOT NULL,    -- identifier of the record that stands in its place; '': none
  spared  INTEGER NOT NULL  -- 1: that record has the same mark, and was never forgotten
);
CREATE INDEX tombstone_mark ON tombstone(mark);
CREATE INDEX tombstone_instead ON tombstone(instead);

CREATE TABLE unscrubbed (event TEXT PRIMARY KEY); -- forgotten, and the file's free space not yet cleaned

CREATE VIEW forgotten AS SELECT event, kind, at, because, nullif(instead, '') AS id FROM tombstone WHERE NOT spared;

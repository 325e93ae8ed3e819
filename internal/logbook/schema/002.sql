-- What was forgotten. A tombstone says that there was a record, when and why it went, and which one stands in its place; nothing in it can be
-- used to find out what was taken out, by trying values against a hash (internal/logbook/forget.go).

CREATE TABLE tombstone (
  event   TEXT NOT NULL, -- random: one for each time that something was forgotten
  mark    TEXT NOT NULL, -- which record it was: SHA-256 over its kind, time and name, or of a note that is gone over the whole
  kind    TEXT NOT NULL,
  at      TEXT NOT NULL, -- when it was forgotten, UTC
  because TEXT NOT NULL,
  instead TEXT,          -- identifier of the record that stands in its place; NULL: none
  PRIMARY KEY (event, mark)
);
CREATE INDEX tombstone_mark ON tombstone(mark);

CREATE TABLE unscrubbed (event TEXT PRIMARY KEY); -- forgotten, and the file's free space not yet cleaned

CREATE VIEW forgotten AS SELECT event, kind, at, because, instead AS id FROM tombstone;

package lsp

import "encoding/json"

// The parts of the Language Server Protocol 3.17 that are spoken here, named as in its specification:
// https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/

type position struct {
	Line      int `json:"line"`      // from 0
	Character int `json:"character"` // in UTF-16 code units
}

type span struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

type diagnostic struct {
	Range    span   `json:"range"`
	Severity int    `json:"severity"` // 1 error, 2 warning, 3 information
	Code     string `json:"code,omitempty"`
	Source   string `json:"source"`
	Message  string `json:"message"`
}

type publishDiagnostics struct {
	URI         string       `json:"uri"`
	Version     *int         `json:"version,omitempty"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

type textEdit struct {
	Range   span   `json:"range"`
	NewText string `json:"newText"`
}

type textDocumentEdit struct {
	TextDocument struct {
		URI     string `json:"uri"`
		Version int    `json:"version"`
	} `json:"textDocument"`
	Edits []textEdit `json:"edits"`
}

type workspaceEdit struct {
	Changes         map[string][]textEdit `json:"changes,omitempty"`
	DocumentChanges []textDocumentEdit    `json:"documentChanges,omitempty"`
}

type codeAction struct {
	Title       string         `json:"title"`
	Kind        string         `json:"kind"`
	Diagnostics []diagnostic   `json:"diagnostics,omitempty"`
	IsPreferred bool           `json:"isPreferred,omitempty"`
	Edit        *workspaceEdit `json:"edit"`
}

type hover struct {
	Contents struct {
		Kind  string `json:"kind"`
		Value string `json:"value"`
	} `json:"contents"`
	Range span `json:"range"`
}

type documentID struct {
	URI     string `json:"uri"`
	Version int    `json:"version"`
}

type documentItem struct {
	URI      string `json:"uri"`
	Language string `json:"languageId"`
	Version  int    `json:"version"`
	Text     string `json:"text"`
}

type contentChange struct {
	Range *span  `json:"range"` // nil: Text is all of it
	Text  string `json:"text"`
}

type notebookCell struct {
	Kind     int    `json:"kind"` // 1 markup, 2 code
	Document string `json:"document"`
}

type initializeParams struct {
	RootURI  string `json:"rootUri"`
	RootPath string `json:"rootPath"`
	Folders  []struct {
		URI string `json:"uri"`
	} `json:"workspaceFolders"`
	Capabilities struct {
		Workspace struct {
			WorkspaceEdit struct {
				DocumentChanges bool `json:"documentChanges"`
			} `json:"workspaceEdit"`
		} `json:"workspace"`
	} `json:"capabilities"`
}

type openParams struct {
	TextDocument documentItem `json:"textDocument"`
}

type changeParams struct {
	TextDocument documentID      `json:"textDocument"`
	Changes      []contentChange `json:"contentChanges"`
}

type closeParams struct {
	TextDocument documentID `json:"textDocument"`
}

type positionParams struct {
	TextDocument documentID `json:"textDocument"`
	Position     position   `json:"position"`
}

type actionParams struct {
	TextDocument documentID `json:"textDocument"`
	Range        span       `json:"range"`
	Context      struct {
		Only []string `json:"only"`
	} `json:"context"`
}

type notebookOpenParams struct {
	Notebook struct {
		URI   string         `json:"uri"`
		Cells []notebookCell `json:"cells"`
	} `json:"notebookDocument"`
	Documents []documentItem `json:"cellTextDocuments"`
}

type notebookChangeParams struct {
	Notebook documentID `json:"notebookDocument"`
	Change   struct {
		Cells struct {
			Structure *struct {
				Array struct {
					Start  int            `json:"start"`
					Delete int            `json:"deleteCount"`
					Cells  []notebookCell `json:"cells"`
				} `json:"array"`
				Open  []documentItem `json:"didOpen"`
				Close []documentID   `json:"didClose"`
			} `json:"structure"`
			Data    []notebookCell `json:"data"`
			Content []struct {
				Document documentID      `json:"document"`
				Changes  []contentChange `json:"changes"`
			} `json:"textContent"`
		} `json:"cells"`
	} `json:"change"`
}

type notebookCloseParams struct {
	Notebook documentID `json:"notebookDocument"`
}

// capabilities is what the server says of itself.
var capabilities = json.RawMessage(`{
	"positionEncoding": "utf-16",
	"textDocumentSync": {"openClose": true, "change": 2, "save": {"includeText": false}},
	"notebookDocumentSync": {"notebookSelector": [{"notebook": "jupyter-notebook", "cells": [{"language": "python"}]}]},
	"hoverProvider": true,
	"codeActionProvider": {"codeActionKinds": ["quickfix", "source.fixAll.assay"]},
	"workspace": {"workspaceFolders": {"supported": true, "changeNotifications": true}}
}`)

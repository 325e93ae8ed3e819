package node

import (
	"os"
	"testing"

	"assay/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

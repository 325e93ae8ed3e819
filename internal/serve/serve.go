// Package serve shows the logbook as pages.
package serve

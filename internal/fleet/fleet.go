// Package fleet works a queue of runs off on several hosts.
package fleet

// Package remote reaches a host over the user's own ssh, brings assay there and speaks with its node.
package remote

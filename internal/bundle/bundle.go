// Package bundle is code on its way to another machine: snapshots of a working folder, and the bundles of `assay
// handoff pack`. What it reads is a stranger's: bounded, and nothing leaves the folder that it is unpacked to.
package bundle

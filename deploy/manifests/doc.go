// Package manifests checks what a deployment is described by.
package manifests

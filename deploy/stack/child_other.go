//go:build !linux

package stack

import "syscall"

// dieWithParent can do nothing here: a parent that is killed leaves its children behind.
func dieWithParent(*syscall.SysProcAttr) {}

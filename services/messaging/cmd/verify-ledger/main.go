// Command verify-ledger checks an exported consent ledger without asking anybody: it reads the answers of GET
// /v1/consents/{phone}, all pages of one phone, from its standard input.
package main

import (
	"fmt"
	"io"
	"os"

	"paceline.internal/services/messaging/consent"
)

func main() {
	if err := verify(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func verify(export io.Reader, out io.Writer) error {
	length, broken, err := consent.VerifyExport(export)
	switch {
	case err != nil:
		return err
	case broken != nil:
		return fmt.Errorf("the chain breaks at line %d: %s", broken.Seq, broken.Why)
	}
	_, err = fmt.Fprintf(out, "ok: %d lines, each as it was written, and none missing\n", length)
	return err
}

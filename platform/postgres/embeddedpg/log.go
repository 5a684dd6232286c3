package embeddedpg

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// logTailBytes bounds the part of the server's log that an error shows.
const logTailBytes = 2 << 10

// openLog starts the log of the next child afresh. The log lies in our folder, not in the server's, so that the server cannot
// put something else in its place.
func (c *Server) openLog() (*os.File, error) {
	log, err := os.OpenFile(c.folder.path("server.log"), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("embedded postgres: %w", err)
	}
	return log, nil
}

// logTail is the end of what the last child wrote.
func (c *Server) logTail() string {
	log, err := os.Open(c.folder.path("server.log"))
	if err != nil {
		return ""
	}
	defer func() { _ = log.Close() }() // nothing was written
	if stat, err := log.Stat(); err == nil && stat.Size() > logTailBytes {
		if _, err := log.Seek(-logTailBytes, io.SeekEnd); err != nil {
			return ""
		}
	}
	tail, err := io.ReadAll(io.LimitReader(log, logTailBytes))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(tail))
}

// explain makes an error of what failed and what the server wrote about it, with a remedy when the reason is a closed folder.
func (c *Server) explain(what string, cause error) error {
	if cause == nil {
		cause = errors.New("exit status 0")
	}
	hint := ""
	tail := c.logTail()
	if c.owner.name != "" && (errors.Is(cause, fs.ErrPermission) || strings.Contains(tail, "Permission denied")) {
		hint = "\nroot runs the server as user " + c.owner.name + ", who must be able to enter both folders and all above them, as in /var/tmp"
	}
	return fmt.Errorf("embedded postgres: %s (%s, %s): %w\n%s%s", what, c.bin, c.folder.dir, cause, tail, hint)
}

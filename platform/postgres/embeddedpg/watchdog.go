package embeddedpg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// watchdog runs its arguments in place of itself, so that the process number is theirs, and leaves a child behind that
// reads our end of a pipe. A line means that the server has ended; the end of the pipe means that we have.
const watchdog = `{ read -r _ || kill -QUIT $$; } <&3 >/dev/null 2>&1 & exec "$@" 3<&-`

// startWatched starts cmd so that it gets SIGQUIT when this process ends, however it ends: that closes lifeline. The
// caller calls release once cmd has ended.
func startWatched(cmd *exec.Cmd) (release func(), lifeline *os.File, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("embedded postgres: watchdog: %w", err)
	}
	defer func() { _ = read.Close() }() // the child has its own
	cmd.ExtraFiles = []*os.File{read}   // descriptor 3
	cmd.Args = append([]string{"sh", "-c", watchdog, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(err, write.Close())
	}
	return func() {
		_, _ = write.WriteString("\n") // fails when the watchdog has ended too
		_ = write.Close()
	}, write, nil
}

// Package manifests checks what a deployment is described by: the Dockerfile, the compose file and the manifests of Kubernetes. No
// engine runs where the tests do. So the files are read by their owners' libraries, strictly, and what those cannot know is held
// against the code: each process is given the environment that they describe, and has to start with it.
package manifests

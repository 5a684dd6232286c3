// Package manifests checks the descriptions of a deployment: the Dockerfile, the compose file and the manifests of Kubernetes. No
// engine runs where the tests do. So the files are read strictly by the libraries of Docker, Compose and Kubernetes, and what those
// cannot know is compared with the code: each process is given the environment that they describe, and has to start with it.
package manifests

package main

import (
	"html"
	"io"
	"text/template"

	"paceline.internal/gateway/console/drawing"
)

// mostDrawn bounds the characters of a line within a box.
const mostDrawn = 52

// picture draws a flow as the console does. The colours are in it, for the file is looked at by itself.
var picture = template.Must(template.New("flow").Funcs(template.FuncMap{"text": html.EscapeString, "cut": cut}).Parse(
	`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{.Width}} {{.Height}}" width="{{.Width}}" height="{{.Height}}" role="img">
<style>
text { font: 13px sans-serif; fill: #1c2430 } .name { font-weight: 600 } .small { font-size: 12px; fill: #5a6472 }
rect { fill: #fff; stroke: #c9d1db } path { fill: none; stroke: #5a6472 } .aside { stroke-dasharray: 4 3 } .tip { fill: #5a6472 }
</style>
<rect width="100%" height="100%" style="stroke: none"></rect>
{{range .Ways}}<path{{if .Aside}} class="aside"{{end}} d="M420 {{.FromY}}H{{.LaneX}}V{{.ToY}}H424"></path>
<path class="tip" d="M428 {{.ToY}}l7 -4v8z"></path>
{{end}}{{range .Boxes}}{{$box := .}}<g><title>{{text .ID}}</title>
<rect x="1" y="{{.Y}}" width="419" height="{{.Height}}" rx="8"></rect>
<text class="name" x="14" y="{{.Y}}" dy="20">{{if .Starts}}▶ {{end}}{{text .ID}}</text>
<text class="small" x="406" y="{{.Y}}" dy="20" text-anchor="end">{{text .Kind}}</text>
<text x="14" y="{{.Y}}" dy="38">{{text (cut .What)}}</text>
{{range $n, $way := .Ways}}<text class="small" x="406" y="{{$box.LineY $n}}" dy="4" text-anchor="end">` +
		`{{text (cut $way.When)}} → {{text $way.To}}</text>
{{end}}</g>
{{end}}</svg>
`))

// cut shortens a line that is too long for a box.
func cut(line string) string {
	if letters := []rune(line); len(letters) > mostDrawn {
		return string(letters[:mostDrawn-1]) + "…"
	}
	return line
}

// draw writes the picture of a flow's files.
func draw(out io.Writer, files map[string]string) error {
	shown, err := drawing.Read(files)
	if err != nil {
		return err
	}
	return picture.Execute(out, drawing.Draw(shown, nil))
}

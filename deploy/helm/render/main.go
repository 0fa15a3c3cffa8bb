// Renders a chart as Helm does: text/template, Sprig, and Helm's own few functions. It stands in for Helm where there is none, so that
// what the chart renders can be tested; it knows no hooks, no libraries and no dependencies, of which our chart has none.
//
//	render CHART RELEASE NAMESPACE [VALUES.yaml]
//
// Debian's golang-go and golang-github-masterminds-sprig-dev are enough (GO111MODULE=off GOPATH=/usr/share/gocode).
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

type object = map[string]interface{}

// files are those of the chart that are no templates: .Files in a template.
type files map[string]string

func (f files) Get(name string) string { return f[name] }

func (f files) Glob(pattern string) files {
	found := files{}
	for name, text := range f {
		if ok, _ := filepath.Match(pattern, name); ok {
			found[name] = text
		}
	}
	return found
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func load(path string) object {
	text, err := os.ReadFile(path)
	check(err)
	var parsed interface{}
	check(yaml.Unmarshal(text, &parsed))
	// By way of JSON, as Helm: numbers are floats afterwards.
	asJSON, err := json.Marshal(parsed)
	check(err)
	values := object{}
	check(json.Unmarshal(asJSON, &values))
	return values
}

// merged lays one set of values over another; null takes a value away, as in Helm.
func merged(over, under object) object {
	result := object{}
	for key, value := range under {
		result[key] = value
	}
	for key, value := range over {
		below, isMap := result[key].(object)
		above, both := value.(object)
		switch {
		case value == nil:
			delete(result, key)
		case isMap && both:
			result[key] = merged(above, below)
		default:
			result[key] = value
		}
	}
	return result
}

// toYaml goes by way of JSON too, so that whole numbers are written as such.
func toYaml(value interface{}) string {
	asJSON, err := json.Marshal(value)
	check(err)
	var plain interface{}
	check(yaml.Unmarshal(asJSON, &plain))
	value = plain
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	check(encoder.Encode(value))
	return strings.TrimSuffix(text.String(), "\n")
}

func fromYaml(text string) object {
	value := object{}
	check(yaml.Unmarshal([]byte(text), &value))
	return value
}

// functions are Sprig's and those of Helm's pkg/engine/funcs.go; the environment and the clock of the host stay outside.
func functions(all *template.Template) template.FuncMap {
	made := sprig.TxtFuncMap()
	delete(made, "env")
	delete(made, "expandenv")
	made["toYaml"], made["fromYaml"] = toYaml, fromYaml
	made["toJson"] = func(value interface{}) string {
		text, err := json.Marshal(value)
		check(err)
		return string(text)
	}
	made["include"] = func(name string, data interface{}) (string, error) {
		var text strings.Builder
		err := all.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	made["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return value, fmt.Errorf("%s", message)
		}
		return value, nil
	}
	return made
}

func main() {
	chart, release, namespace := os.Args[1], os.Args[2], os.Args[3]
	about, values, other := load(filepath.Join(chart, "Chart.yaml")), load(filepath.Join(chart, "values.yaml")), files{}
	if len(os.Args) > 4 {
		values = merged(load(os.Args[4]), values)
	}
	// zero: a key that is not there is nil to functions and empty in text, as in Helm
	all := template.New("chart").Option("missingkey=zero")
	all.Funcs(functions(all))
	var names []string
	check(filepath.Walk(chart, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		name, _ := filepath.Rel(chart, path)
		text, err := os.ReadFile(path)
		check(err)
		if strings.HasPrefix(name, "templates/") {
			_, err = all.New(name).Parse(string(text))
			names = append(names, name)
		} else {
			other[name] = string(text)
		}
		return err
	}))
	sort.Strings(names)
	data := object{
		"Values":  values,
		"Chart":   object{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
		"Release": object{"Name": release, "Namespace": namespace, "Service": "Helm"},
		"Files":   other,
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".tpl") {
			continue
		}
		var text strings.Builder
		check(all.ExecuteTemplate(&text, name, data))
		if rendered := strings.ReplaceAll(text.String(), "<no value>", ""); strings.TrimSpace(rendered) != "" {
			fmt.Printf("---\n# Source: %s\n%s\n", name, strings.TrimSpace(rendered))
		}
	}
}

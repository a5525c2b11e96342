// Embeds the files of the folder `page`: a file that is added there is added here.

#include "CInspectorPage.h"

// #embed is of C23, and the compiler that comes with Swift has it in C of any year.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char api_js[] = {
#embed "page/api.js"
};
static const unsigned char app_js[] = {
#embed "page/app.js"
};
static const unsigned char blame_js[] = {
#embed "page/blame.js"
};
static const unsigned char browser_js[] = {
#embed "page/browser.js"
};
static const unsigned char conflicts_js[] = {
#embed "page/conflicts.js"
};
static const unsigned char decide_js[] = {
#embed "page/decide.js"
};
static const unsigned char diff_js[] = {
#embed "page/diff.js"
};
static const unsigned char dom_js[] = {
#embed "page/dom.js"
};
static const unsigned char icon_svg[] = {
#embed "page/icon.svg"
};
static const unsigned char index_html[] = {
#embed "page/index.html"
};
static const unsigned char keys_js[] = {
#embed "page/keys.js"
};
static const unsigned char lanes_js[] = {
#embed "page/lanes.js"
};
static const unsigned char live_js[] = {
#embed "page/live.js"
};
static const unsigned char model_js[] = {
#embed "page/model.js"
};
static const unsigned char nodes_js[] = {
#embed "page/nodes.js"
};
static const unsigned char object_js[] = {
#embed "page/object.js"
};
static const unsigned char schema_js[] = {
#embed "page/schema.js"
};
static const unsigned char style_css[] = {
#embed "page/style.css"
};
static const unsigned char threeway_js[] = {
#embed "page/threeway.js"
};
static const unsigned char timeline_js[] = {
#embed "page/timeline.js"
};
static const unsigned char values_js[] = {
#embed "page/values.js"
};

static const struct inspector_page_entry files[] = {
    {"api.js", api_js, sizeof(api_js)},
    {"app.js", app_js, sizeof(app_js)},
    {"blame.js", blame_js, sizeof(blame_js)},
    {"browser.js", browser_js, sizeof(browser_js)},
    {"conflicts.js", conflicts_js, sizeof(conflicts_js)},
    {"decide.js", decide_js, sizeof(decide_js)},
    {"diff.js", diff_js, sizeof(diff_js)},
    {"dom.js", dom_js, sizeof(dom_js)},
    {"icon.svg", icon_svg, sizeof(icon_svg)},
    {"index.html", index_html, sizeof(index_html)},
    {"keys.js", keys_js, sizeof(keys_js)},
    {"lanes.js", lanes_js, sizeof(lanes_js)},
    {"live.js", live_js, sizeof(live_js)},
    {"model.js", model_js, sizeof(model_js)},
    {"nodes.js", nodes_js, sizeof(nodes_js)},
    {"object.js", object_js, sizeof(object_js)},
    {"schema.js", schema_js, sizeof(schema_js)},
    {"style.css", style_css, sizeof(style_css)},
    {"threeway.js", threeway_js, sizeof(threeway_js)},
    {"timeline.js", timeline_js, sizeof(timeline_js)},
    {"values.js", values_js, sizeof(values_js)},
};

const int inspector_page_count = sizeof(files) / sizeof(files[0]);

struct inspector_page_entry inspector_page_file(int index) { return files[index]; }

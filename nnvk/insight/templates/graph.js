"use strict";
// The graph of the page, by Cytoscape.js: the wheel zooms, the mouse or a finger moves it, the search shows nodes.
const data = JSON.parse(document.getElementById("data").textContent);
const style = getComputedStyle(document.body);
const cy = cytoscape({
  container: document.getElementById("graph"),
  elements: {
    nodes: data.nodes.map((node) => ({
      data: { id: node.key, label: node.label, text: node.text, colour: node.colour },
      position: { x: node.x, y: node.y },
      classes: node.device ? "operation" : "port",
    })),
    edges: data.edges.map((edge) => ({
      data: { source: edge.source, target: edge.target, label: edge.label },
      classes: edge.in_column ? "" : "across",
    })),
  },
  layout: { name: "preset", fit: true, padding: 20 },
  minZoom: 0.02,
  maxZoom: 4,
  hideEdgesOnViewport: data.edges.length > 2000,
  style: [
    {
      selector: "node",
      style: {
        label: "data(label)", "text-wrap": "wrap", "text-valign": "center", "font-size": 11, width: 190, height: 52,
        shape: "round-rectangle", "background-color": "data(colour)", "border-width": 1, "border-color": "#555555",
        color: "#000000",
      },
    },
    { selector: ".port", style: { shape: "ellipse" } },
    {
      selector: "edge",
      style: {
        width: 1.5, "line-color": "#888888", "target-arrow-color": "#888888", "target-arrow-shape": "triangle",
        "curve-style": "bezier", label: "data(label)", "font-size": 8, color: style.color,
        "text-background-color": style.backgroundColor, "text-background-opacity": 0.9, "min-zoomed-font-size": 6,
      },
    },
    { selector: ".across", style: { "line-style": "dashed", opacity: 0.6 } },
    { selector: ".found", style: { "border-width": 5, "border-color": "#c4302b" } },
    { selector: ".other", style: { opacity: 0.35 } },
  ],
});

const query = document.getElementById("query");
const said = document.getElementById("found");
const rows = [...document.getElementById("operations").tBodies[0].rows];
let found = cy.collection();
let current = -1;

// Marks the nodes that have all words of the query, and hides the rows of other operations.
function search() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (text) => words.every((word) => text.includes(word));
  found = words.length ? cy.nodes().filter((node) => has(node.data("text"))) : cy.collection();
  cy.batch(() => {
    cy.nodes().removeClass("found other");
    found.addClass("found");
    if (found.length) cy.nodes().difference(found).addClass("other");
  });
  for (const row of rows) row.hidden = !has(row.textContent.toLowerCase().replace(/\s+/g, " "));
  current = -1;
  said.textContent = words.length ? `${found.length} found` : "";
}

// Moves to the next node that was found.
function next() {
  if (!found.length) return;
  current = (current + 1) % found.length;
  cy.animate({ center: { eles: found[current] }, zoom: Math.max(cy.zoom(), 1), duration: 200 });
  said.textContent = `${current + 1} of ${found.length}`;
}

function zoom(factor) {
  const middle = { x: cy.width() / 2, y: cy.height() / 2 };
  cy.zoom({ level: cy.zoom() * factor, renderedPosition: middle });
}

query.addEventListener("input", search);
query.form.addEventListener("submit", (event) => { event.preventDefault(); next(); });
document.getElementById("closer").addEventListener("click", () => zoom(1.4));
document.getElementById("farther").addEventListener("click", () => zoom(1 / 1.4));
document.getElementById("all").addEventListener("click", () => cy.fit(undefined, 20));

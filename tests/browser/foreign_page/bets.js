customElements.define("bet-box", class extends HTMLElement {
  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.innerHTML = "<button>Double or nothing</button>";
    root.addEventListener("click", () => parent.postMessage({ bet: true }, "*"));
  }
});

// Written anew after every choice and four times a second, as a framework without keys does.
const group = document.querySelector("div");
const draw = () => {
  group.innerHTML = [10, 25, 50, 100]
    .map((share) => `<button type=button role=radio value="${share}"><span>${share} %</span></button>`).join("");
};
group.addEventListener("click", ({ target }) => {
  parent.postMessage({ share: Number(target.closest("button").value) / 100 }, "*");
  draw();
});
setInterval(draw, 250);
draw();

const answer = await fetch("/ready", { headers: { Accept: "application/json" } });
const { status, message } = await answer.json();
const line = document.createElement("p");
line.setAttribute("role", "status");
line.textContent = status ?? message;
document.getElementById("app").append(line);

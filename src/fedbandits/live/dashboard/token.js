// The token: from the address's fragment or the form, kept for this tab only.

const KEY = "fedbandits token";
export const FRAGMENT = "#token=";

// Takes the token out of the address, so that it is not copied, bookmarked or seen on a screen.
export function takeToken() {
  if (location.hash.startsWith(FRAGMENT)) {
    keepToken(decoded(location.hash.slice(FRAGMENT.length)));
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem(KEY);
}

// Not URLSearchParams: it would read a plus sign as a space.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a per cent sign that was meant as one
  }
}

export function keepToken(token) {
  sessionStorage.setItem(KEY, token.trim());
  return token.trim();
}

export function forgetToken() {
  sessionStorage.removeItem(KEY);
}

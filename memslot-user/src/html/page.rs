//! The frame of every report, and its charts.

use super::plain;
use crate::chart::{Error, Format, Picture};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("sort.js");

/// An SVG longer than this is embedded as PNG, if that is shorter.
const LONG: usize = 200_000;

/// A whole document.
pub(super) fn document(title: &str, body: &Markup) -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
    // Nothing may be loaded, and nothing may run but what stands here.
    let policy = format!(
        "default-src 'none'; img-src data:; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "memslot " (env!("MEMSLOT_VERSION")) };
                title { (plain(title)) }
                // A browser would ask for one.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                footer {
                    p { "Made by memslot " (env!("MEMSLOT_VERSION")) ". What each figure means, and what it does not tell: "
                        "docs/methodology.md of memslot's source." }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// What the report comes to, in a box: good, bad or neither.
pub(super) fn verdict(is_good: Option<bool>, headline: &str, lines: &[String]) -> Markup {
    let class = match is_good {
        Some(true) => "verdict good",
        Some(false) => "verdict bad",
        None => "verdict",
    };
    html! {
        div class=(class) role="note" {
            strong { (plain(headline)) }
            @for line in lines { p { (plain(line)) } }
        }
    }
}

/// A chart with its explanation.
pub(super) fn chart(picture: &Picture, caption: &str) -> Result<Markup, Error> {
    let svg = picture.svg();
    let png = if svg.len() > LONG { Some(picture.encode(Format::Png)?) } else { None };
    Ok(match png.filter(|png| png.len() < svg.len()) {
        Some(png) => image(&png, &picture.title, caption),
        None => html! { figure { (PreEscaped(svg)) figcaption { (plain(caption)) } } },
    })
}

/// A chart that is a PNG already.
pub(super) fn image(png: &[u8], title: &str, caption: &str) -> Markup {
    html! {
        figure {
            img src={ "data:image/png;base64," (STANDARD.encode(png)) } alt=(plain(title));
            figcaption { (plain(caption)) }
        }
    }
}

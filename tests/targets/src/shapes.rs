// Rust as it is met: enums with and without niches, traits, generics, &str, String, Vec, Option, Result, closures.
// Modes as in driver.h: none (READY, then a round every 10 ms), `calls N`, `wait`, `spin SECONDS`.
use std::collections::HashMap;
use std::io::BufRead;
use std::time::{Duration, Instant};

pub mod shapes {
    #[derive(Debug, Clone)]
    pub enum Shape {
        Circle(f64),
        Rect { width: f64, height: f64 },
        Named(String, Box<Shape>),
        Empty,
    }

    pub trait Area {
        fn area(&self) -> f64;
    }

    impl Area for Shape {
        #[inline(never)]
        fn area(&self) -> f64 {
            match self {
                Shape::Circle(r) => 3.0 * r * r,
                Shape::Rect { width, height } => width * height,
                Shape::Named(_, inner) => inner.area(),
                Shape::Empty => 0.0,
            }
        }
    }

    pub struct Store<T> {
        pub items: Vec<T>,
        pub label: &'static str,
    }

    impl<T: Clone> Store<T> {
        #[inline(never)]
        pub fn push(&mut self, item: T, times: u8) -> usize {
            for _ in 0..times {
                self.items.push(item.clone());
            }
            if self.items.len() > 64 {
                self.items.clear();
            }
            self.items.len()
        }
    }
}

use shapes::{Area, Shape, Store};

#[inline(never)]
pub fn greet(name: &str, times: u32) -> String {
    format!("hello {} x{}", name, times)
}

#[inline(never)]
pub fn takes_string(text: String, flag: bool) -> usize {
    text.len() + flag as usize
}

#[inline(never)]
pub fn takes_slice(values: &[i32]) -> i64 {
    values.iter().map(|v| *v as i64).sum()
}

#[inline(never)]
pub fn find(names: &HashMap<String, u16>, name: &str) -> Option<u16> {
    names.get(name).copied()
}

#[inline(never)]
pub fn parse(text: &str) -> Result<i32, std::num::ParseIntError> {
    text.parse::<i32>()
}

#[inline(never)]
pub fn total(shapes: &[Box<dyn Area>]) -> f64 {
    shapes.iter().map(|s| s.area()).sum()
}

#[inline(never)]
pub fn maybe(point: Option<&Shape>, pair: (u8, i64), letter: char) -> i64 {
    point.map_or(0, |p| p.area() as i64) + pair.0 as i64 + pair.1 + letter as i64
}

#[inline(never)]
pub fn apply<F: Fn(i32) -> i32>(function: F, value: i32) -> i32 {
    function(value)
}

fn round(i: i32, quiet: bool) {
    let mut store = Store { items: vec![1u16, 2], label: "numbers" };
    let rect = Shape::Rect { width: 2.0, height: i as f64 };
    let named = Shape::Named("wheel".to_string(), Box::new(Shape::Circle(1.0)));
    let mut names = HashMap::new();
    names.insert("port".to_string(), 443u16);
    let lines = vec![
        format!("greet name=world times={} = {}", i, greet("world", i as u32)),
        format!("takes_string = {}", takes_string("naïve".to_string(), true)),
        format!("takes_slice = {}", takes_slice(&[i, 2, -3])),
        format!("find name=port = {:?} {}", find(&names, "port"), find(&names, "x").is_none()),
        format!("parse = {:?} {}", parse("42"), parse("zz").is_err()),
        format!("total = {}", total(&[Box::new(rect.clone()), Box::new(named), Box::new(Shape::Empty)])),
        format!("maybe = {}", maybe(Some(&rect), (1, -5), 'é')),
        format!("Store::push = {} {}", store.push(7, 3), store.label),
        format!("apply = {}", apply(|v| v + i, 10)),
    ];
    if !quiet {
        for line in lines {
            println!("CALL {}", line);
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mode = args.get(1).map(String::as_str).unwrap_or("");
    let number: u64 = args.get(2).and_then(|n| n.parse().ok()).unwrap_or(1);
    if mode == "calls" {
        (0..number).for_each(|i| round(i as i32, false));
        return;
    }
    println!("READY {}", std::process::id());
    match mode {
        "wait" => std::io::stdin().lock().lines().enumerate().for_each(|(i, _)| round(i as i32, false)),
        "spin" => {
            let (begin, mut rounds) = (Instant::now(), 0);
            while begin.elapsed() < Duration::from_secs(number) {
                round(rounds, true);
                rounds += 1;
            }
            println!("rounds={}", rounds);
        }
        _ => {
            for i in 0.. {
                round(i, true);
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
